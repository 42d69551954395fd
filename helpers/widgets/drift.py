"""The drift explorer: move β and watch a policy leave its reference. Controls and pictures, no maths."""

import io
from collections.abc import Sequence

import ipywidgets

from helpers.experiments.beta_sweep import Sweep
from helpers.experiments.drift import Drift, DriftView
from helpers.experiments.runs import Run, Sample
from helpers.models import load_tokenizer
from helpers.plots.drift import Curves, NextToken, Plane, still_picture
from helpers.widgets.markup import PAGE, Markup, escape, guarded
from helpers.widgets.sliders import WIDE, in_a_row, show_live

MORE, LESS = (0, 114, 178), (230, 120, 0)  # blue: the policy says it more often; orange: less
FULL, STRONGEST = 3.0, 0.62  # nats at which a colour is full; share of it in the white
CLOSE_UP = set(".,!?;:")  # no blank before these


def token_colour(drift: float) -> tuple[int, int, int]:
    """White at 0, blue above, orange below, full at ±3 nats; black letters stay readable on all."""
    share = STRONGEST * min(abs(drift) / FULL, 1.0)
    target = MORE if drift > 0 else LESS
    return tuple(round(255 + share * (part - 255)) for part in target)


def chip(token: str, logprob: float, ref_logprob: float) -> str:
    """One token on its colour; the numbers on hover. Dotted below where the policy says it less."""
    drift = logprob - ref_logprob
    red, green, blue = token_colour(drift)
    edge = "dotted #333" if drift < -0.1 else "solid transparent"
    title = f"{drift:+.2f} nats: log π {logprob:.2f}, log π_ref {ref_logprob:.2f}"
    return (
        f'<span title="{title}" style="background:rgb({red},{green},{blue});color:#111;padding:0 2px;'
        f'border-radius:3px;border-bottom:2px {edge}">{escape(token)}</span>'
    )


def sample_html(sample: Sample, prompt: str) -> str:
    """One response: what it scored, how far it drifted in all, its tokens."""
    gold = "" if sample.gold is None else f" · gold <b>{sample.gold:+.2f}</b>"
    head = f"proxy <b>{sample.score:+.2f}</b>{gold} · Σ {sum(sample.drift):+.1f} nats"
    rows = zip(sample.tokens, sample.logprobs, sample.ref_logprobs, strict=True)
    words = ""
    for token, logprob, ref_logprob in rows:
        words += ("" if token in CLOSE_UP else " ") + chip(token, logprob, ref_logprob)
    return (
        f'<div style="margin:0 0 7px"><div style="font-size:12px;color:#444">{head}</div>'
        f'<div style="font-size:14px;line-height:1.65"><span style="color:#666">'
        f"{escape(prompt)}</span>{words}</div></div>"
    )


def shaded(sample: Sample) -> Markup:
    """A response of a subword tokenizer, whose tokens bring their own blanks, on its colours."""
    rows = zip(sample.tokens, sample.logprobs, sample.ref_logprobs, strict=True)
    return Markup('<span style="line-height:1.7;white-space:pre-wrap">{}</span>').format(
        Markup("".join(chip(*row) for row in rows))
    )


def legend_html() -> str:
    """The colour scale, with numbers."""
    steps = (-3, -1.5, 0, 1.5, 3)
    chips = "".join(
        f'<span style="background:rgb{token_colour(step)};color:#111;padding:0 7px">{step:+g}</span>'
        for step in steps
    )
    return (
        '<div style="font-size:12px;color:#444;margin-bottom:6px">log π − log π<sub>ref</sub> of each '
        f"token, nats: less often {chips} more often than the reference</div>"
    )


def drift_samples_html(view: DriftView, prompt: str) -> str:
    """The samples kept for this prompt at this iteration; every text is escaped."""
    when = f"after {view.snapshot} iterations"
    rows = "".join(sample_html(sample, prompt) for sample in view.samples)
    rows = rows or "<div>This run kept no samples of this prompt.</div>"
    return (
        f'<div style="{PAGE};padding:2px 8px;height:100%">'
        f'<div style="font-size:12px;font-weight:bold">Samples {escape(when)}</div>'
        f"{legend_html()}{rows}</div>"
    )


def number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where nothing was measured."""
    return "–" if value is None else f"{value:.{digits}f}"


def status_html(view: DriftView) -> str:
    """The numbers of this view in one line, and what has to be said about it."""
    now = view.values
    parts = [
        f"<b>{escape(view.stop.label) if view.stop.run else f'β = {view.stop.label}'}</b>",
        "" if now["seed"] is None else f"seed {now['seed']}",
        f"after {now['iteration']} iterations",
        f"proxy {number(now['proxy'], 3)}",
        f"gold {number(now['gold'], 3)}",
        f"KL {number(now['kl'], 3)} nats",
        f"J {number(now['J'], 3)}",
        f"J* {number(now['J_star'], 3)}",
        f"efficiency {number(now['efficiency'], 3)}",
        f"entropy {number(now['entropy'])}",
        f"length {number(now['length'], 1)}",
    ]
    line = " · ".join(part for part in parts if part)
    notes = " ".join(escape(note) for note in view.footnotes) or "&nbsp;"
    return (
        '<div aria-live="polite" style="line-height:1.35"><div class="drift-values">'
        f'{line}</div><div style="font-size:12px;opacity:0.8;min-height:2.7em">{notes}</div></div>'
    )


def still_words(samples: Sequence[Sample], prompt: str) -> list[list[tuple[str, tuple]]]:
    """The same samples for a still picture: (text, background) pairs, a list a sample."""
    rows = []
    for sample in samples:
        words = [(prompt, (255, 255, 255))]
        words += [(t, token_colour(d)) for t, d in zip(sample.tokens, sample.drift, strict=True)]
        rows.append(words)
    return rows


class DriftExplorer:
    """Controls `beta`, `iteration` (with `play`), `prompt` and `seed` over three pictures and samples.

    `values` holds the numbers now shown (β, iteration, proxy, gold, kl, J, J_star, efficiency,
    entropy, length ...; None where nothing was measured), `view` all of them. `add_run` lets another
    run join. Pictures keep their figures and move their artists; a picture that did not change is not
    sent. Works with ipywidgets 7.7 and 8; a saved notebook shows a still picture, if `pictured`.
    """

    def __init__(self, sweep: Sweep, vocabulary: list[str] | None = None, pictured: bool = True):
        self.drift, self.view, self.silent, self.pictured = Drift(sweep), None, False, pictured
        if vocabulary is None:
            tokenizer = load_tokenizer(sweep.runs[0].config.actor)
            vocabulary = tokenizer.convert_ids_to_tokens(list(range(self.drift.vocabulary_size)))
        self._make_controls()
        self.panels = {
            "plane": Plane(self.drift),
            "curves": Curves(self.drift),
            "next": NextToken(self.drift, vocabulary),
        }
        self.panels["next"].show_prompt(self.prompt.value)
        self.images = {name: self._image(panel) for name, panel in self.panels.items()}
        self.status, self.samples, self.message = (ipywidgets.HTML() for _ in range(3))
        self.samples.layout = ipywidgets.Layout(width="535px", overflow="auto")
        self.box = self._lay_out()
        self.box.add_class("drift-explorer")
        for control in (self.beta, self.iteration, self.seed, self.prompt):
            control.observe(self.redraw, names="value")
        self.redraw()

    def _make_controls(self) -> None:
        drift = self.drift
        trained = [beta for beta in drift.sweep.betas if beta > 0]
        self.beta = ipywidgets.SelectionSlider(
            options=self._options(),
            value=trained[len(trained) // 2] if trained else 0.0,
            description="β",
            style=WIDE,
            layout=ipywidgets.Layout(width="330px"),
        )
        last = max(curves["iteration"][-1] for curves in drift.all_curves())
        self.iteration = ipywidgets.IntSlider(
            value=last,
            min=0,
            max=last,
            description="iteration",
            style=WIDE,
            layout=ipywidgets.Layout(width="260px"),
        )
        self.play = ipywidgets.Play(value=last, min=0, max=last, interval=250)
        ipywidgets.jslink((self.play, "value"), (self.iteration, "value"))
        self.seed = ipywidgets.Dropdown(
            options=drift.sweep.shown_seeds,
            description="seed",
            style=WIDE,
            layout=ipywidgets.Layout(width="95px"),
        )
        self.prompt = ipywidgets.Dropdown(
            options=drift.prompts,
            description="prompt",
            style=WIDE,
            layout=ipywidgets.Layout(width="235px"),
        )

    def _options(self) -> list[tuple]:
        return [(stop.label, stop.key) for stop in self.drift.stops]

    @staticmethod
    def _image(panel) -> ipywidgets.Image:
        width, height = panel.canvas.get_width_height()
        fixed = ipywidgets.Layout(width=f"{width}px", height=f"{height}px", flex="0 0 auto")
        return ipywidgets.Image(format="png", layout=fixed)

    def _lay_out(self) -> ipywidgets.VBox:
        controls = in_a_row(self.beta, self.iteration, self.play, self.seed, self.prompt)
        upper = in_a_row(self.images["plane"], self.images["curves"])
        lower = in_a_row(self.images["next"], self.samples)
        return ipywidgets.VBox([controls, self.message, self.status, upper, lower])

    @property
    def values(self) -> dict:
        """The numbers now on the page."""
        return dict(self.view.values)

    def look(self) -> DriftView:
        """What the controls ask for."""
        stop = next(stop for stop in self.drift.stops if stop.key == self.beta.value)
        where = self.iteration.value, self.seed.value, self.prompt.value
        return self.drift.view(stop, *where)

    def redraw(self, change: dict | None = None) -> None:
        """Show what the controls ask for. A problem is told on the page."""
        if self.silent:
            return
        guarded(lambda: self._redraw(change), self._say)()

    def _redraw(self, change: dict | None) -> None:
        if change is not None and change["owner"] is self.prompt:
            self.panels["next"].show_prompt(self.prompt.value)
        self._show(self.look())
        self._say("")

    def _show(self, view: DriftView) -> None:
        """All parts, in the order the eye goes; ipywidgets sends only those that changed."""
        self.view = view
        self.status.value = status_html(view)
        self.seed.disabled = view.values["seed"] is None  # the reader's own run has one seed
        for control in (self.beta, self.seed, self.prompt):  # one option is no choice
            control.layout.display = "none" if len(control.options) == 1 else None
        for name, panel in self.panels.items():
            panel.update(view)
            self.images[name].value = panel.png()
        self.samples.value = drift_samples_html(view, self.prompt.value)

    def _say(self, words: str) -> None:
        self.message.value = words

    def add_run(self, run: Run, label: str = "yours", own_reward: bool = False) -> None:
        """Let a run join: it stands at the right end of the β slider, and the explorer goes there.

        With `own_reward` its scores come from another reward than the sweep's: no J* is drawn beside
        it. Give a run that has grown once more to follow it; another run of the same label is
        "yours 2". ValueError: a run with no iteration yet.
        """
        stop = self.drift.add(run, label, own_reward)
        for name in ("plane", "curves"):
            self.panels[name].refresh()
        self.panels["next"].show_prompt(self.prompt.value)
        self.silent = True
        self.beta.options = self._options()
        self.beta.value = stop.key
        longest = max(curves["iteration"][-1] for curves in self.drift.all_curves())
        self.iteration.max = self.play.max = longest
        self.iteration.value = longest
        self.silent = False
        self.redraw()

    def still(self) -> bytes:
        """All of it as one PNG, for a page without a kernel."""
        words = still_words(self.view.samples, self.prompt.value)
        pictures = [panel.draw() for panel in self.panels.values()]
        packed = io.BytesIO()
        title = f"β = {self.view.stop.label}, after {self.view.iteration} iterations"
        still_picture(pictures, words, title).save(packed, format="png", optimize=True)
        return packed.getvalue()

    def _ipython_display_(self) -> None:
        """The live widget where there is a kernel; the same picture, still, where there is none."""
        words = "the drift explorer: run this cell to move β"
        show_live(self.box, words, png=self.still() if self.pictured else None)


def explore_drift(sweep: Sweep, pictured: bool = True) -> DriftExplorer:
    """The explorer of this sweep; the last expression of a cell shows it.

    Without `pictured` a saved notebook keeps no picture of it (where the drift page stands above).
    """
    return DriftExplorer(sweep, pictured=pictured)
