"""Exact results: π* and J*, best-of-n, the Gaussian toy, over-optimisation curves."""
