"""Lesson 13: what several processes add up."""
