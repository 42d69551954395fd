"""Lesson 07: the optimum at a β, the next β, scores at equal KL."""
