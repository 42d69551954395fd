"""Lesson 04: the PPO update."""
