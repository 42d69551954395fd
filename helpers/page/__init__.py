"""The drift page: its parts, the page made of them, and its wire to Python."""
