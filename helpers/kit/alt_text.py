"""A figure in words, for those who do not see it; made from what is written in it."""

from collections.abc import Iterable
from textwrap import shorten

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend

MOST = 300  # characters: more is tiring to hear


def alt_text(figure: Figure) -> str:
    """Titles, labels, legends and words inside of each panel; in many panels only as much as has room."""
    details = [_panel(axes) for axes in figure.axes if axes.get_visible()]
    details = [panel for panel in details if any(panel)]
    legends = [entry for legend in figure.legends for entry in _entries(legend)]
    head = [_listed([figure.get_suptitle(), figure.get_supxlabel()]), _listed(legends)]
    tries = [said for depth in (4, 3, 2, 1) if (said := _said(head, details, depth))]
    fits = (words for words in tries if len(words) <= MOST)
    return next(fits, shorten(tries[-1], MOST, placeholder="…") if tries else "a figure")


def _panel(axes: Axes) -> list[str]:
    """What is written in a panel, what matters most first: title, labels, curves, words inside."""
    titles = [axes.get_title(loc) for loc in ("left", "center", "right")]
    legend = axes.get_legend()
    curves = _entries(legend) if legend else axes.get_legend_handles_labels()[1]
    inside = [text.get_text() for text in axes.texts]
    labels = [axes.get_xlabel(), axes.get_ylabel()]
    return [_listed(words) for words in (titles, labels, curves, inside)]


def _entries(legend: Legend) -> list[str]:
    return [text.get_text() for text in (legend.get_title(), *legend.get_texts())]


def _listed(words: Iterable[str]) -> str:
    """Each once, without line breaks."""
    return ", ".join(filter(None, dict.fromkeys(" ".join(word.split()) for word in words)))


def _said(head: list[str], details: list[list[str]], depth: int) -> str:
    """The figure's own words, then each panel's first `depth` details, numbered where there are several."""
    panels = ["; ".join(filter(None, panel[:depth])) for panel in details]
    if len(panels) > 1 and any(panels):
        panels = [f"{k}: {words}" if words else "" for k, words in enumerate(panels, start=1)]
        panels = [f"{len(panels)} panels", *panels]
    return ". ".join(filter(None, (*head, *panels)))
