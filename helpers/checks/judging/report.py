"""The report of a check: HTML in Jupyter, the same words as text in a terminal."""

from dataclasses import dataclass
from html import escape

import torch
from torch import Tensor, nn

NOT_ATTEMPTED, CORRECT, MISTAKE = "not attempted", "correct", "mistake"
SIGNS = {NOT_ATTEMPTED: "○", CORRECT: "✓", MISTAKE: "✗"}
EDGES = {NOT_ATTEMPTED: "#888888", CORRECT: "#009E73", MISTAKE: "#D55E00"}
LONGEST = 600  # maximum characters of one value


def kind_of(value: object) -> str:
    """A value's type with its article: "an int", "a list"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


@dataclass(frozen=True, repr=False)
class Report:
    """Result of one check. `status` is "not attempted", "correct" or "mistake"."""

    exercise: str
    status: str
    message: str
    mistake: str | None = None  # its short name
    look: str = ""  # the formula and its source
    case: tuple[tuple[str, str], ...] = ()  # the smallest failing case: (label, value) lines

    @property
    def title(self) -> str:
        """One line: the sign, the exercise, the verdict."""
        verdict = {NOT_ATTEMPTED: "not attempted yet", CORRECT: "correct"}.get(self.status)
        if verdict is None:
            known = self.mistake not in (None, "unrecognised")
            verdict = "not right yet" + (f" ({self.mistake})" if known else "")
        return f"{SIGNS[self.status]} {self.exercise}: {verdict}"

    @property
    def hint(self) -> str:
        """What stands before the formula: who is right has nothing to look for."""
        return "In short" if self.status == CORRECT else "Look at"

    def __str__(self) -> str:
        lines = [self.title, f"  {self.message}"]
        lines += [f"  {self.hint}: {self.look}"] if self.look else []
        width = max((len(label) for label, _ in self.case), default=0)
        for label, value in self.case:
            indent = "\n" + " " * (width + 6)
            lines.append(f"    {label:<{width}}  " + value.replace("\n", indent))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # only the edge has a colour: text and background follow the theme, light or dark
        edge = f"border-left:4px solid {EDGES[self.status]};padding:2px 12px;margin:4px 0"
        parts = [f"<b>{escape(self.title)}</b>", f"<div>{escape(self.message)}</div>"]
        parts += [f"<div>{self.hint}: {escape(self.look)}</div>"] if self.look else []
        cell = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;white-space:pre-wrap"
        rows = "".join(
            f'<tr style="background:none"><th scope="row" style="{cell}">{escape(label)}</th>'
            f'<td style="{cell};font-family:monospace">{escape(value)}</td></tr>'
            for label, value in self.case
        )
        parts += [f'<table style="margin:6px 0">{rows}</table>'] if rows else []
        return f'<div style="{edge}">{"".join(parts)}</div>'


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


def compare(yours: object, expected: object, what: str = "") -> list[tuple[str, str]]:
    """Both values as lines of a case, with enough digits to show a difference; `what` they are, if said."""
    digits = 4 if show(yours) != show(expected) else 8
    labels = (f"{what}, yours", f"{what}, expected") if what else ("yours", "expected")
    return list(zip(labels, (show(yours, digits), show(expected, digits)), strict=True))
