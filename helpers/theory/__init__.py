"""What is known exactly, or estimated from samples: π*, J*, the efficiency of a policy."""
