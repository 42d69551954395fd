"""The gallery of a reward hack, in notebook 08."""

from collections import Counter
from collections.abc import Callable, Sequence

from helpers.kit.coloured_words import legend_html, sample_html
from helpers.kit.markup import Markup, card
from helpers.kit.sliders import Explorer, picker, stops
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


class Gallery(Explorer):
    """A slider through a run's snapshots and a picker of the prompt: what it wrote, judged twice."""

    words = "samples along a run"

    def __init__(self, run: Run, explain: Explain, start: int = 0):
        def draw(shot: int, prompt: str) -> Markup:
            taken = run.snapshots[shot]
            title = f"After {taken.iteration} iterations"
            return gallery_html(taken.samples[prompt], prompt, explain, title)

        iterations = [shot.iteration for shot in run.snapshots]
        prompts = picker("prompt", list(run.snapshots[0].samples))
        super().__init__(draw, shot=stops("after iteration", iterations, start), prompt=prompts)
        # of the longest samples: what stands below never jumps
        self.message.layout.min_height = "450px"
