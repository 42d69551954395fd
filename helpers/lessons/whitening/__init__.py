"""Lesson 03: whitening."""
