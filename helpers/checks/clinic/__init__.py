"""Exercises of notebook 09."""
