"""What the sub-commands of `python -m helpers` do, where it is more than one call."""
