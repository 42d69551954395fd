"""What moves on a page: live training, sliders. No maths here."""

from helpers.widgets.explore import Explorer, picker, slider
from helpers.widgets.live import progress_html, show_pairs, watch

__all__ = ["Explorer", "picker", "progress_html", "show_pairs", "slider", "watch"]
