"""Exercises of notebook 04."""
