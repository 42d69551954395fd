"""Widget of notebook 00: the texts of several runs side by side, at the iteration of a slider."""

from collections.abc import Mapping, Sequence

from helpers.kit.markup import Markup, card, table
from helpers.kit.sliders import Explorer, stops
from helpers.studies.runs import Run
from helpers.tools.validate import require


class SideBySide(Explorer):
    """One response a prompt from each run, with its score, at an iteration that was recorded.

    `runs` maps a name to a run; all were asked the same prompts with the same random numbers.
    It opens at the last iteration. ValueError: an iteration of which a run has no snapshot.
    """

    words = "the texts of several runs, and a slider"

    def __init__(self, runs: Mapping[str, Run], iterations: Sequence[int]):
        for name, run in runs.items():
            kept = [shot.iteration for shot in run.snapshots]
            lacking = sorted(set(iterations) - set(kept))
            require(not lacking, "iterations", f"{lacking} of {name}", f"some of {kept}")
        self.runs, self.iterations = runs, iterations
        last = len(iterations) - 1
        super().__init__(
            lambda iteration: card(self.table_at(iterations[iteration])),
            iteration=stops("iteration", iterations, last),
        )

    def table_at(self, iteration: int) -> Markup:
        """Score and text of each run, one row a prompt."""
        shots = {name: run.at(iteration) for name, run in self.runs.items()}
        heads = [part for name in shots for part in (f"{name}: score", f"{name}: text")]
        firsts = zip(*(shot.samples.values() for shot in shots.values()), strict=True)
        rows = [[x for sample, *_ in row for x in (sample.score, sample.text)] for row in firsts]
        return table(rows, heads)

    def still(self) -> Markup:
        """The first and the last iteration, for a page without a kernel."""
        page, both = Markup("<b>iteration {}</b>{}"), (self.iterations[0], self.iterations[-1])
        return card(Markup("").join(page.format(at, self.table_at(at)) for at in both))
