"""Lesson 09: find what is wrong with a run, and repair it."""
