"""What a check says: a card in Jupyter, the same words in a terminal."""

from dataclasses import dataclass
from html import escape

from torch import Tensor

NOT_ATTEMPTED, CORRECT, MISTAKE = "not attempted", "correct", "mistake"
SIGNS = {NOT_ATTEMPTED: "○", CORRECT: "✓", MISTAKE: "✗"}
EDGES = {NOT_ATTEMPTED: "#888888", CORRECT: "#009E73", MISTAKE: "#D55E00"}
LONGEST = 600  # characters of one value: beyond that nobody reads on


@dataclass(frozen=True, repr=False)
class Report:
    """Outcome of one check. `status` is "not attempted", "correct" or "mistake"."""

    exercise: str
    status: str
    message: str
    mistake: str | None = None  # its short name
    look: str = ""  # the formula, and where it stands
    case: tuple[tuple[str, str], ...] = ()  # the smallest failing case: (label, value) lines

    @property
    def title(self) -> str:
        """One line: the sign, the exercise, the verdict."""
        verdict = {NOT_ATTEMPTED: "not attempted yet", CORRECT: "correct"}.get(self.status)
        if verdict is None:
            known = self.mistake not in (None, "unrecognised")
            verdict = f"likely mistake: {self.mistake}" if known else "not right yet"
        return f"{SIGNS[self.status]} {self.exercise}: {verdict}"

    def __str__(self) -> str:
        lines = [self.title, f"  {self.message}"]
        lines += [f"  Look at: {self.look}"] if self.look else []
        width = max((len(label) for label, _ in self.case), default=0)
        for label, value in self.case:
            indent = "\n" + " " * (width + 6)
            lines.append(f"    {label:<{width}}  " + value.replace("\n", indent))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # no colours but the edge's: text and ground are the theme's own, light or dark
        edge = f"border-left:4px solid {EDGES[self.status]};padding:2px 12px;margin:4px 0"
        parts = [f"<b>{escape(self.title)}</b>", f"<div>{escape(self.message)}</div>"]
        parts += [f"<div>Look at: {escape(self.look)}</div>"] if self.look else []
        cell = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;white-space:pre-wrap"
        rows = "".join(
            f'<tr style="background:none"><th scope="row" style="{cell}">{escape(label)}</th>'
            f'<td style="{cell};font-family:monospace">{escape(value)}</td></tr>'
            for label, value in self.case
        )
        parts += [f'<table style="margin:6px 0">{rows}</table>'] if rows else []
        return f'<div style="{edge}">{"".join(parts)}</div>'


def _entry(x) -> str:
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def _nested(x, depth: int) -> str:
    if not isinstance(x, list):
        return _entry(x)
    comma = ", " if depth <= 1 else ",\n" + " "
    return "[" + comma.join(_nested(item, depth - 1).replace("\n", "\n ") for item in x) + "]"


def show(value: object) -> str:
    """A tensor as numbers of four digits, one row a line; anything else by its repr."""
    if isinstance(value, Tensor) and value.device.type != "meta":
        text = _nested(value.detach().cpu().tolist(), value.dim())
    else:
        text = repr(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"
