"""Exercises of notebook 06: a trainer from an empty cell."""
