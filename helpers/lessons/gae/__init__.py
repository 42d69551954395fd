"""Lesson 02: rewards per token, TD errors, GAE."""
