"""Lesson 13: memory and LoRA, what several processes add up."""
