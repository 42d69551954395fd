"""Exercises of notebook 03."""
