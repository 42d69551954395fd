"""Lesson 12: a chat model's rollout, the memory that is held, LoRA."""
