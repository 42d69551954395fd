"""Lesson 11: implicit rewards, the DPO loss, a whole DPO training."""
