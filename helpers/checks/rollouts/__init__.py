"""Exercises of notebook 01."""
