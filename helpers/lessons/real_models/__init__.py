"""Lesson 12: a task that a program checks, a learned reward, chats and turns as tokens, a judge."""
