"""Live training: a progress bar and curves that follow a run; texts before and after."""

from collections.abc import Iterable, Iterator

from IPython.display import HTML, DisplayHandle, display

from helpers.kit.figures import training_curves
from helpers.kit.markup import Markup, show_table, styled


def progress_html(done: int, total: int, words: str) -> HTML:
    """A bar and a line of words (escaped unless Markup). It shows in a saved notebook too."""
    share = 100 * done / max(total, 1)
    bar = Markup(
        '<div><div class="progress" role="progressbar" aria-label="iterations done" aria-valuenow="{}"'
        ' aria-valuemax="{}"><i style="width:{:.0f}%"></i></div> {}/{} &nbsp; {}</div>'
    )
    return HTML(str(styled(bar.format(done, total, share, done, total, words))))


def watch(records: Iterable[dict], total: int, every: int = 1) -> Iterator[dict]:
    """Pass a run's records through while a progress bar and the curves follow it on the page."""
    bar, curves = DisplayHandle(), DisplayHandle()
    bar.display(progress_html(0, total, "starting"))
    history = []

    def draw() -> None:
        """The curves so far, in the place where they stand."""
        figure = training_curves(history, total)
        curves.display(figure) if len(history) <= every else curves.update(figure)

    for record in records:
        history.append(record)
        words = f"score {record['score']:+.2f} · KL {record['kl']:.2f} · "
        words += f"entropy {record['entropy']:.2f} · {record['seconds']:.1f} s an iteration"
        bar.update(progress_html(len(history), total, words))
        if len(history) % every == 0:
            draw()
        yield record
    if len(history) % every:
        draw()


def show_pairs(before: list[str], after: list[str], count: int = 5) -> None:
    """A table of the same prompts answered twice."""
    display(show_table(["before", "after"], list(zip(before, after, strict=True))[:count]))
