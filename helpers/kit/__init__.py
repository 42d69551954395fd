"""What lessons share: exercises and their judge, figures, sliders, predictions, the page's style."""
