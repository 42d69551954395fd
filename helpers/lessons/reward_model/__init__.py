"""Lesson 05: the reward model: pairs, their loss, the fit, accuracy, the scale of scores."""
