"""Plumbing that knows nothing of RLHF: argument checks, files, process pool, collectives."""
