"""Lesson 08: a reward of your own, best of n, the effect of an edit, pairs that patch a reward model."""
