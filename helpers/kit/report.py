"""The report of a check: HTML in Jupyter, the same words as text in a terminal."""

from dataclasses import dataclass, replace
from html import escape

import torch
from torch import Tensor, nn

NOT_ATTEMPTED, CORRECT, MISTAKE = "not attempted", "correct", "mistake"
SIGNS = {NOT_ATTEMPTED: "○", CORRECT: "✓", MISTAKE: "✗"}
EDGES = {NOT_ATTEMPTED: "#888888", CORRECT: "#009E73", MISTAKE: "#D55E00"}
UNKNOWN = "unrecognised"  # wrong, and nothing can be said of what kind
LONGEST, LARGE = 600, 30  # characters of one value at most; numbers of an input shown whole


def kind_of(value: object) -> str:
    """A value's type with its article: "an int", "a list"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


TRIES: dict[str, int] = {}  # wrong answers in a row, by exercise
KIND, FORMULA = 2, 3  # the tries from which on the kind is told, and the change with the formula


@dataclass(frozen=True, repr=False)
class Report:
    """Result of one check. `status` is "not attempted", "correct" or "mistake".

    A mistake is told in three steps: where, then its kind, then the change and the formula.
    """

    exercise: str
    status: str
    message: str  # what to change; of what is not attempted or right, all there is to say
    mistake: str | None = None  # the kind of mistake
    look: str = ""  # the formula and its source
    case: tuple[tuple[str, str], ...] = ()  # the smallest failing case: (label, value) lines
    where: str = ""  # what is right so far, and what is wrong first; "" where the message is all
    tries: int = FORMULA

    @property
    def title(self) -> str:
        """One line: the sign, the exercise, the verdict."""
        verdict = {NOT_ATTEMPTED: "not attempted yet", CORRECT: "correct"}.get(self.status)
        if verdict is None:
            told = self.mistake not in (None, UNKNOWN) and (self.tries >= KIND or not self.where)
            verdict = "not right yet" + (f" ({self.mistake})" if told else "")
        return f"{SIGNS[self.status]} {self.exercise}: {verdict}"

    @property
    def words(self) -> list[str]:
        """The sentences under the title."""
        if self.status != MISTAKE:
            return [self.message, *([f"In short: {self.look}"] if self.look else [])]
        if not self.where:
            return [self.message]
        if self.tries < FORMULA:
            more = "kind of mistake" if self.tries < KIND and self.mistake != UNKNOWN else "change"
            return [self.where, f"Run the check again to be told the {more}."]
        return [self.where, self.message, f"Look at: {self.look}"]

    def __str__(self) -> str:
        lines = [self.title, *(f"  {words}" for words in self.words)]
        width = max((len(label) for label, _ in self.case), default=0)
        for label, value in self.case:
            indent = "\n" + " " * (width + 6)
            lines.append(f"    {label:<{width}}  " + value.replace("\n", indent))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # only the edge has a colour: text and background follow the theme, light or dark
        edge = f"border-left:4px solid {EDGES[self.status]};padding:2px 12px;margin:4px 0"
        parts = [f"<b>{escape(self.title)}</b>"]
        parts += [f"<div>{escape(words)}</div>" for words in self.words]
        cell = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;white-space:pre-wrap"
        rows = "".join(
            f'<tr style="background:none"><th scope="row" style="{cell}">{escape(label)}</th>'
            f'<td style="{cell};font-family:monospace">{escape(value)}</td></tr>'
            for label, value in self.case
        )
        parts += [f'<table style="margin:6px 0">{rows}</table>'] if rows else []
        return f'<div style="{edge}">{"".join(parts)}</div>'


def counted(report: Report) -> Report:
    """The same report, told as far as this try of the exercise allows."""
    if report.status != MISTAKE:
        TRIES.pop(report.exercise, None)
        return report
    TRIES[report.exercise] = TRIES.get(report.exercise, 0) + 1
    return replace(report, tries=TRIES[report.exercise])


def _nested(x, depth: int, digits: int) -> str:
    if not isinstance(x, list):
        return f"{x + 0.0:.{digits}g}" if isinstance(x, float) else str(x)  # −0 is shown as 0
    comma = ", " if depth <= 1 else ",\n "
    items = [_nested(item, depth - 1, digits).replace("\n", "\n ") for item in x]
    return "[" + comma.join(items) + "]"


def short(value: object) -> str:
    """The repr of anything; of a model or a tokenizer, whose own runs over many lines, one line."""
    tokenizer = hasattr(value, "convert_ids_to_tokens")
    text = repr(value)
    if tokenizer or (isinstance(value, nn.Module) and "\n" in text):
        return f"a {'tokenizer' if tokenizer else 'model'} ({type(value).__name__})"
    return text


def show(value: object, digits: int = 4) -> str:
    """A tensor as text, one row per line, with this many digits; the repr of anything else."""
    plain = isinstance(value, Tensor) and value.layout == torch.strided
    try:
        if plain and value.device.type != "meta":
            text = _nested(value.detach().cpu().tolist(), value.dim(), digits)
        else:
            text = short(value)
    except Exception:  # noqa: BLE001 (a learner's own class may have a broken repr)
        text = kind_of(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def brief(value: object) -> str:
    """An input of a case, as text; of a large matrix two rows."""
    whole = not isinstance(value, Tensor) or value.dim() != 2 or value.numel() <= LARGE
    return show(value) if whole else f"{show(value[:2])} … {len(value)} rows in all"


def compare(yours: object, expected: object, what: str = "") -> list[tuple[str, str]]:
    """Both values as lines of a case, with enough digits to show a difference; `what` they are, if said."""
    digits = 4 if show(yours) != show(expected) else 8
    labels = (f"{what}, yours", f"{what}, expected") if what else ("yours", "expected")
    return list(zip(labels, (show(yours, digits), show(expected, digits)), strict=True))
