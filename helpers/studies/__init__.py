"""What recorded runs share: jobs, histories, the β sweep, the drift of a policy."""
