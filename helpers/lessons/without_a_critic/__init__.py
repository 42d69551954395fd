"""Lesson 10: advantages from groups of responses, without a critic; pass@k."""
