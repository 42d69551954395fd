"""Lesson 06: a trainer in eight functions."""
