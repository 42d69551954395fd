"""Recorded runs and their measurements: β sweep, KL control, reward hacking, clinic."""
