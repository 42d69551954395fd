"""HTML that all widgets share: tables, problems, callbacks that tell theirs. Texts are escaped here."""

from collections.abc import Callable, Iterable, Sequence

from IPython.display import HTML
from markupsafe import Markup, escape  # comes with Jupyter

PAGE = "background:#fff;color:#111;line-height:1.4"  # a ground of its own: readable in a dark theme
CELL = Markup('<{0} style="text-align:{2};vertical-align:top;padding:2px 6px">{1}</{0}>')


def table(rows: Iterable[Sequence], heads: Sequence[str] = (), wide: bool = False) -> Markup:
    """Rows of texts and numbers; numbers to the right, with sign and two digits. `wide`: all there is."""
    lines = [[("th", name, "left") for name in heads]] if heads else []
    for row in rows:
        numbers = [isinstance(cell, float) for cell in row]
        cells = [f"{x:+.2f}" if n else x for x, n in zip(row, numbers, strict=True)]
        sides = ["right" if n else "left" for n in numbers]
        lines.append([("td", x, side) for x, side in zip(cells, sides, strict=True)])
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(CELL.format(*cell) for cell in line))
        for line in lines
    )
    return Markup("<table{}>{}</table>").format(Markup(' style="width:100%"' if wide else ""), body)


def show_table(columns: Sequence[str], rows: Iterable[Sequence]) -> HTML:
    """A table as the value of a notebook's cell."""
    return HTML(str(table(rows, columns)))


def problem_html(problem: Exception) -> Markup:
    """An exception in a callback, as a sentence on the page."""
    words = f"{type(problem).__name__}: {problem}"
    return Markup('<div role="alert" style="color:#B34700"><b>{}</b></div>').format(words)


def guarded(action: Callable[[], None], tell: Callable[[Markup], None]) -> Callable:
    """A callback that tells its exceptions on the page: JupyterLab shows those of callbacks nowhere."""

    def act(change: object = None) -> None:
        try:
            action()
        except Exception as problem:  # noqa: BLE001 (whatever it is, the reader has to see it)
            tell(problem_html(problem))

    return act


__all__ = ["PAGE", "Markup", "escape", "guarded", "problem_html", "show_table", "table"]
