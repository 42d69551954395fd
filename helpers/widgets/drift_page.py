"""The drift explorer's words: one line of numbers, and samples whose tokens are coloured by drift."""

import html
from collections.abc import Sequence

from helpers.drift_view import View
from helpers.runs import Sample

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
        f'border-radius:3px;border-bottom:2px {edge}">{html.escape(token)}</span>'
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
        f"{html.escape(prompt)}</span>{words}</div></div>"
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


def samples_html(view: View, prompt: str) -> str:
    """The samples kept for this prompt at this iteration; every text is escaped."""
    when = "of the mixture" if view.stop.mixture else f"after {view.snapshot} iterations"
    rows = "".join(sample_html(sample, prompt) for sample in view.samples)
    rows = rows or "<div>This run kept no samples of this prompt.</div>"
    return (
        '<div style="background:#fff;color:#111;padding:2px 8px;height:100%;line-height:1.4">'
        f'<div style="font-size:12px;font-weight:bold">Samples {html.escape(when)}</div>'
        f"{legend_html()}{rows}</div>"
    )


def number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where nothing was measured."""
    return "–" if value is None else f"{value:.{digits}f}"


def status_html(view: View) -> str:
    """The numbers of this view in one line, and what has to be said about it."""
    now = view.values
    parts = [
        f"<b>{html.escape(view.stop.label) if view.stop.run else f'β = {view.stop.label}'}</b>",
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
    notes = " ".join(html.escape(note) for note in view.notes) or "&nbsp;"
    return (
        '<div aria-live="polite" style="line-height:1.35"><div class="drift-values">'
        f'{line}</div><div style="font-size:12px;opacity:0.8;min-height:2.7em">{notes}</div></div>'
    )


def problem_html(problem: Exception) -> str:
    """An error in a callback: it shows nowhere else."""
    words = html.escape(f"{type(problem).__name__}: {problem}")
    return f'<div role="alert" style="color:#B34700"><b>{words}</b></div>'


def still_words(samples: Sequence[Sample], prompt: str) -> list[list[tuple[str, tuple]]]:
    """The same samples for a still picture: (text, background) pairs, a list a sample."""
    rows = []
    for sample in samples:
        words = [(prompt, (255, 255, 255))]
        words += [(t, token_colour(d)) for t, d in zip(sample.tokens, sample.drift, strict=True)]
        rows.append(words)
    return rows
