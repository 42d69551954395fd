"""Exercises of notebook 11."""
