"""The embedded world: grammar, reviews, gold score, labeller, small models, and the build of data/."""
