"""Lesson 01: what a rollout records: masks, positions, log-probs, KL."""
