"""A response word by word, coloured by log π − log π_ref, as on the drift page; every text is escaped.

The colours stand in the words themselves: JupyterLab drops style sheets from the outputs of a
notebook that it does not trust yet, as of one that was just fetched.
"""

from helpers.kit.markup import Markup
from helpers.kit.style import see_through
from helpers.studies.runs import Sample

FULL, STRONGEST = 3.0, 62  # nats at which a colour is full; percent of it over the ground
LEAST = 0.1  # nats below which a word has no colour
CLOSE_UP = set(".,!?;:")  # no blank before these


def word_span(text: str, drift: float, title: str = "") -> Markup:
    """A word on its colour: blue where the policy says it more, orange and dotted where less."""
    side = "" if abs(drift) < LEAST else "more" if drift > 0 else "less"
    if not side:
        return Markup('<span class="word" title="{}">{}</span>').format(title, text)
    look = "background-color:" + see_through(side, round(STRONGEST * min(abs(drift) / FULL, 1.0)))
    look += ";border-bottom:2px dotted" if side == "less" else ""
    span = Markup('<span class="word {}" style="{}" title="{}">{}</span>')
    return span.format(side, look, title, text)


def token_span(token: str, logprob: float, ref_logprob: float) -> Markup:
    """One token; its numbers on hover."""
    drift = logprob - ref_logprob
    title = f"{drift:+.2f} nats: log π {logprob:.2f}, log π_ref {ref_logprob:.2f}"
    return word_span(token, drift, title)


def sample_html(sample: Sample, prompt: str) -> Markup:
    """One response: what it scored, how far it drifted in all, its tokens."""
    gold = Markup("")
    if sample.gold is not None:
        gold = Markup(" · gold <b>{:+.2f}</b>").format(sample.gold)
    head = Markup("proxy <b>{:+.2f}</b>{} · Σ {:+.1f} nats")
    words = Markup("")
    for token, *logprobs in zip(sample.tokens, sample.logprobs, sample.ref_logprobs, strict=True):
        words += ("" if token in CLOSE_UP else " ") + token_span(token, *logprobs)
    page = Markup(
        '<div class="fine">{}</div><div class="text"><span class="given">{}</span>{}</div>'
    )
    return page.format(
        head.format(sample.score, gold, round(sum(sample.drift), 1) + 0.0), prompt, words
    )


def legend_html() -> Markup:
    """The colour scale, with numbers."""
    steps = Markup(" ").join(word_span(f"{step:+g}", step) for step in (-3, -1.5, 0, 1.5, 3))
    words = Markup(
        '<div class="fine">log π − log π<sub>ref</sub> of each token, nats: less often {} more often '
        "than the reference</div>"
    )
    return words.format(steps)
