"""Reinforcement learning from human feedback, built from its parts: one small module per idea.

Read from the bottom up: reviews, models, rollouts, kl, gae, whitening, ppo, reward_model, loop.
Importing the package loads nothing; every notebook imports the module it needs.
"""
