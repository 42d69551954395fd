"""Reinforcement learning from human feedback, built from its parts: one small module per idea.

README.md beside this file says in which order to read them. Importing the package loads nothing; every
notebook imports the module it needs.
"""
