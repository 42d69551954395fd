"""What moves on a page: live training, sliders. No maths here."""

from helpers.widgets.live import progress_html, show_pairs, watch
from helpers.widgets.sliders import Explorer, picker, slider

__all__ = ["Explorer", "picker", "progress_html", "show_pairs", "slider", "watch"]
