"""Widget of notebook 00: the texts of several runs side by side, at the iteration of a slider."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import ipywidgets

from helpers.kit.markup import Markup, card, table
from helpers.kit.sliders import Explorer
from helpers.studies.runs import Run, Sample
from helpers.tools.validate import require


class SideBySide(Explorer):
    """One response a prompt from each run, with its score, at an iteration that was recorded.

    `runs` maps a name to a run; all were asked the same prompts with the same random numbers.
    `cell`: a sample as it stands in the table. `asked`: head of a first column with the prompts.
    It opens at the last iteration; with `fold`, where the reader is to guess that first, at the
    first, and without a kernel the last is folded.
    ValueError: no run, an iteration of which a run has no snapshot.
    """

    words = "the texts of several runs, and a slider"

    def __init__(
        self,
        runs: Mapping[str, Run],
        iterations: Sequence[int],
        cell: Callable[[Sample], object] = attrgetter("text"),
        asked: str = "",
        fold: bool = False,
    ):
        require(len(runs) > 0, "runs", "none", "at least one")
        for name, run in runs.items():
            kept = [shot.iteration for shot in run.snapshots]
            lacking = sorted(set(iterations) - set(kept))
            require(not lacking, "iterations", f"{lacking} of {name}", f"some of {kept}")
        self.runs, self.cell, self.asked, self.fold = runs, cell, asked, fold
        slider = ipywidgets.SelectionSlider(
            options=[(str(number), number) for number in iterations],
            value=iterations[0 if fold else -1],
            description="iteration",
        )
        super().__init__(lambda iteration: card(self.table_at(iteration)), iteration=slider)

    def table_at(self, iteration: int) -> Markup:
        """Score and text of each run, one row a prompt."""
        shots = {name: run.at(iteration) for name, run in self.runs.items()}
        heads = [part for name in shots for part in (f"{name}: score", f"{name}: text")]
        prompts = next(iter(shots.values())).samples
        firsts = [[shot.samples[prompt][0] for shot in shots.values()] for prompt in prompts]
        rows = [[x for sample in row for x in (sample.score, self.cell(sample))] for row in firsts]
        if self.asked:
            heads = [self.asked, *heads]
            rows = [[prompt, *row] for prompt, row in zip(prompts, rows, strict=True)]
        return table(rows, heads)

    def still(self) -> Markup:
        """The first and the last iteration, for a page without a kernel."""
        plain = Markup("<b>iteration {}</b>{}")
        folded = Markup("<details><summary><b>iteration {}</b></summary>{}</details>")
        options = self.controls["iteration"].options
        (start, first), (end, last) = options[0], options[-1]
        later = (folded if self.fold else plain).format(end, self.table_at(last))
        return card(plain.format(start, self.table_at(first)) + later)
