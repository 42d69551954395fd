"""A room for each lesson, named as its notebook: checks of its exercises, its figures, widgets, studies."""
