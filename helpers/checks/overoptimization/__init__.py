"""Exercises of notebook 08."""
