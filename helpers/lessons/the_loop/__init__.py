"""Lesson 00: the objective."""
