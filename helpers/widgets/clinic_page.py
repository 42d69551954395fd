"""The clinic's words: verdicts, the score kept, and samples side by side. Every text is escaped."""

import html

from helpers.faults import Fault
from helpers.runs import Sample, Snapshot

STOP = "</s>"
PANELS = {  # where a hint sends the eye
    "score": "the score",
    "kl": "the KL from the reference",
    "entropy": "the entropy",
    "response_length": "the response length",
    "ended": "the share of responses that ended",
    "value_loss": "the value loss",
    "explained_variance": "the explained variance",
    "approx_kl": "approx_kl, and what the clip fraction says beside it",
    "clip_fraction": "the clip fraction",
    "first_ratio_error": "first_ratio_error, and from which iteration on it is large",
}


def box_html(words: str, colour: str = "#777777") -> str:
    """A verdict on a ground of its own, so that it can be read in a dark theme too."""
    return (
        f'<div aria-live="polite" style="background:#fff;color:#111;border-left:5px solid {colour};'
        f'padding:4px 10px;line-height:1.45;max-width:60em">{words}</div>'
    )


def right_html(fault: Fault) -> str:
    """The diagnosis was right: which sign gave it away."""
    title, sign = html.escape(fault.title), html.escape(fault.sign)
    return box_html(f"<b>Right.</b> {title}.<br>What gave it away: {sign}", "#009E73")


def wrong_html(chosen: Fault, fault: Fault) -> str:
    """The diagnosis was wrong: what that fault would have shown, and where to look instead."""
    title, sign = html.escape(chosen.title), html.escape(chosen.sign)
    where = f"Look again at {PANELS[fault.statistic]}."
    if chosen.statistic == fault.statistic:
        where = (
            f"You may be looking at the right curve, {PANELS[fault.statistic]}, but this fault is not "
            "the only one that moves it: how far, from when on, and what moves with it?"
        )
    return box_html(f"<b>Not this one.</b> {title} would have shown: {sign}<br>{where}", "#D55E00")


def answer_html(fault: Fault) -> str:
    """The fault by name, its sign, and the call that trains it again."""
    title, sign, name = (html.escape(x) for x in (fault.title, fault.sign, fault.name))
    call = f'<code>rerun("{name}")</code> trains it again, here.'
    return box_html(f"<b>The answer.</b> {title}.<br>The sign: {sign} {call}")


def progress_words(total: int, solved: set[int], shown: set[int]) -> str:
    """The score, with the numbers of the cases behind it."""
    parts = [f"<b>{len(solved)} of {total} solved</b>"]
    for words, cases in (("solved", solved), ("answer shown", shown)):
        if cases:
            parts.append(f"{words}: {', '.join(str(number) for number in sorted(cases))}")
    if len(solved) == total:
        parts.append("Every patient has a diagnosis.")
    return f'<div aria-live="polite" style="padding:4px 8px">{" · ".join(parts)}</div>'


def sample_html(sample: Sample) -> str:
    """Score and text, whatever a model wrote; ■ where the policy said stop."""
    end = " ■" if sample.tokens[-1:] == [STOP] else ""
    cell = "text-align:left;padding:2px 6px;vertical-align:top;white-space:normal"
    return (
        f'<td style="text-align:right;vertical-align:top"><b>{sample.score:+.2f}</b></td>'
        f'<td style="{cell};width:50%">{html.escape(sample.text)}{end}</td>'
    )


def samples_html(healthy: Snapshot, case: Snapshot, name: str) -> str:
    """One response to each watched prompt, healthy on the left, the case on the right."""
    rows = "".join(
        f"<tr>{sample_html(healthy.samples[prompt][0])}{sample_html(case.samples[prompt][0])}</tr>"
        for prompt in healthy.samples
    )
    heads = "".join(
        f'<th></th><th style="text-align:left">{html.escape(words)}</th>'
        for words in (f"healthy, after {healthy.iteration}", f"{name}, after {case.iteration}")
    )
    return (
        '<div style="background:#fff;color:#111;line-height:1.35;font-size:13px">'
        f'<table style="width:100%">{"<tr>" + heads + "</tr>"}{rows}</table>'
        "<div>Bold: the reward model's own score. ■: the policy stopped.</div></div>"
    )
