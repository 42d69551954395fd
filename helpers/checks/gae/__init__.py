"""Exercises of notebook 02."""
