"""Exercises of notebook 07."""
