"""Measurements, not tests: each command prints a table and a JSON line."""
