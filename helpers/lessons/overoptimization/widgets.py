"""The gallery of a reward hack, in notebook 08."""

from collections import Counter
from collections.abc import Callable, Sequence

import ipywidgets

from helpers.kit.coloured_words import legend_html, sample_html
from helpers.kit.markup import Markup, card, guarded
from helpers.kit.sliders import in_a_row, picker, show_live, stops
from helpers.studies.runs import Run, Sample, Snapshot

Explain = Callable[[str], tuple[float, list]]  # a text → points, and what they are made of


RULE = "border-top:1px solid rgba(127,127,127,0.60);margin-top:12px;padding-top:6px"


def points_html(parts: Sequence[tuple[str, float]]) -> Markup:
    """What the gold score gave and took; escaped. A long item wraps, so a narrow page cuts none off."""
    item = Markup('<span class="is-{}">{:+.2f} {}</span>')
    items = (
        item.format("wrong" if points < 0 else "right", points, what) for what, points in parts
    )
    return Markup('<div class="fine">gold: {}</div>').format(Markup(" &nbsp;·&nbsp; ").join(items))


def judged_html(sample: Sample, prompt: str, explain: Explain) -> Markup:
    """One sample below a rule, its tokens coloured by drift, with what gold counted for and against it."""
    body = sample_html(sample, prompt) + points_html(explain(sample.text)[1])
    return Markup('<div style="{}">{}</div>').format(RULE, body)


def gallery_html(samples: Sequence[Sample], prompt: str, explain: Explain, title: str) -> Markup:
    """Several judged samples of one prompt under a title; every text is escaped."""
    rows = Markup("").join(judged_html(sample, prompt, explain) for sample in samples)
    return card(legend_html() + Markup("<p><b>{}</b></p>{}").format(title, rows))


def ledger(shot: Snapshot, explain: Explain) -> dict[str, float]:
    """Mean points a sample that gold gave or took at a snapshot, by item."""
    samples = [sample for some in shot.samples.values() for sample in some]
    points = Counter()
    for sample in samples:
        for what, worth in explain(sample.text)[1]:
            points[what.split(" (")[0]] += worth / len(samples)
    return points


class Gallery:
    """A slider through a run's snapshots and a picker of the prompt: what it wrote, judged twice."""

    def __init__(self, run: Run, explain: Explain, start: int = 0):
        self.run, self.explain = run, explain
        iterations = [shot.iteration for shot in run.snapshots]
        self.shot = stops("after iteration", iterations, start)
        self.prompt = picker("prompt", list(run.snapshots[0].samples))
        self.page = ipywidgets.HTML()
        self.page.layout.min_height = (
            "450px"  # of the longest samples: what stands below never jumps
        )
        self.show = guarded(self._show, self._tell)
        for control in (self.shot, self.prompt):
            control.observe(self.show, names="value")
        self.box = ipywidgets.VBox([in_a_row(self.shot, self.prompt), self.page])
        self.show()

    def _show(self) -> None:
        shot, prompt = self.run.snapshots[self.shot.value], self.prompt.value
        title = f"After {shot.iteration} iterations"
        self._tell(gallery_html(shot.samples[prompt], prompt, self.explain, title))

    def _tell(self, page: str) -> None:
        self.page.value = page

    def _ipython_display_(self) -> None:
        """The live page where there is a kernel; the same page, still, where there is none."""
        show_live(self.box, "samples along a run", page=self.page.value)
