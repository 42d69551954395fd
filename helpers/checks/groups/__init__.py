"""Exercises of notebook 10."""
