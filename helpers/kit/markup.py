"""HTML that all widgets share: tables, problems, callbacks that tell theirs. Texts are escaped here."""

from collections.abc import Callable, Iterable, Sequence

from IPython.display import HTML
from markupsafe import Markup  # comes with Jupyter

from helpers.kit.style import widget_style

CELL = Markup('<{0} style="text-align:{2};vertical-align:top;padding:2px 6px">{1}</{0}>')


def card(body: object, kind: str = "", **attributes: str) -> Markup:
    """A card of the shared style sheet (`page/widgets.css`): it can be read in a dark theme too.

    `kind` more of its classes; attributes as in HTML, with _ for -.
    """
    named = {name.replace("_", "-"): value for name, value in attributes.items()}
    more = Markup("").join(Markup(' {}="{}"').format(*pair) for pair in named.items())
    return Markup('<div class="{}"{}>{}</div>').format(f"card {kind}".strip(), more, body)


def styled(body: object) -> Markup:
    """Markup with its style sheet, for an output that stands alone."""
    return Markup('{}<div class="course">{}</div>').format(widget_style(), body)


def table(rows: Iterable[Sequence], heads: Sequence[str] = (), wide: bool = False) -> Markup:
    """Rows of texts and numbers; numbers to the right, with sign and two digits. `wide`: all there is."""

    def of_row(x: object) -> tuple:
        return ("td", f"{x:+.2f}", "right") if isinstance(x, float) else ("td", x, "left")

    lines = [[("th", name, "left") for name in heads]] if heads else []
    lines += [[of_row(x) for x in row] for row in rows]
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
    return Markup('<div role="alert" class="is-wrong"><b>{}</b></div>').format(words)


def guarded(action: Callable[[], None], tell: Callable[[Markup], None]) -> Callable:
    """A callback that tells its exceptions on the page: JupyterLab shows those of callbacks nowhere."""

    def act(change: object = None) -> None:
        try:
            action()
        except Exception as problem:  # noqa: BLE001 (whatever it is, the reader has to see it)
            tell(problem_html(problem))

    return act
