"""Train your own: pick β, iterations and a reward, press Train, watch, press Stop. No maths here."""

import threading
import time
from collections.abc import Callable

import ipywidgets

from helpers.config import RLHFConfig
from helpers.kit.figures import training_curves
from helpers.kit.live import progress_html
from helpers.kit.markup import Markup, problem_html, table
from helpers.kit.sliders import WIDE, button, in_a_row, picker, show_live, show_picture, slider
from helpers.state import start_run
from helpers.studies.runs import Run, record_run
from helpers.tools.validate import require

BETAS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
PATIENCE = 0.5  # seconds between two drawings of the curves: drawing must not slow the training


class Stopped(Exception):
    """Raised between two steps of an iteration when Stop was pressed."""


class LiveTrainer:
    """Controls, a progress bar, live curves and samples; training runs in a thread beside the page.

    `rewards` maps a name to a function (list of texts → scores), or to None for the shipped reward
    model. Each run, stopped or whole, is appended to `runs` at its end; `on_run`, if set, is handed it as
    it grows (the same object, every half second at most) and at its end. Works with ipywidgets 7.7
    and 8; errors are shown on the page, and one in `on_run` does not end the training.
    """

    def __init__(
        self,
        rewards: dict[str, Callable | None],
        measures: dict[str, Callable] | None = None,
        **settings,
    ):
        require(len(rewards) > 0, "rewards", "an empty dict", "at least one name: function")
        self.rewards, self.measures, self.settings = rewards, measures, settings
        self.on_run: Callable[[Run], None] | None = None
        self.runs: list[Run] = []
        self._stop, self._thread, self._drawn = threading.Event(), None, 0.0
        # set at the end: a thread whose join was interrupted looks dead (CPython 3.11)
        self._ended = threading.Event()
        options = [(f"{beta:g}", beta) for beta in BETAS]
        self.beta = ipywidgets.SelectionSlider(
            options=options, value=0.1, description="β", style=WIDE
        )
        self.iterations = slider("iterations", 20, 2, 100, 1)
        self.reward = picker("reward", list(rewards))
        self.train_button = button("Train", self.start, self._tell, "primary")
        self.stop_button = button("Stop", self.stop, self._tell)
        self.stop_button.disabled = True
        self.bar = ipywidgets.HTML(progress_html(0, 1, "press Train").data)
        self.curves, self.samples = ipywidgets.Image(format="png"), ipywidgets.HTML()
        self.curves.layout.display = "none"  # until there is something to see
        self.settled = (self.beta, self.iterations, self.reward)  # when Train is pressed
        for control in self.settled:
            control.add_class("waits-for-button")
        controls = in_a_row(*self.settled, self.train_button, self.stop_button)
        self.box = ipywidgets.VBox([controls, self.bar, self.curves, self.samples])
        self.box.add_class("live-trainer")

    @property
    def running(self) -> bool:
        """Whether a training is under way."""
        return self._thread is not None and not self._ended.is_set()

    def start(self) -> None:
        """What Train does. ValueError while another training is under way."""
        require(not self.running, "start", "a second training", "the first to end, or Stop")
        config = RLHFConfig(
            kl_coef=self.beta.value, iterations=self.iterations.value, **self.settings
        )
        self._stop.clear(), self._ended.clear()
        self._set_running(True)
        arguments = (config, self.reward.value)
        self._thread = threading.Thread(target=self._train, args=arguments, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """What Stop does: the training ends after the step it is in and keeps what there is."""
        self._stop.set()
        self.stop_button.disabled = True

    def wait(self, timeout: float | None = None) -> Run | None:
        """Wait for the training to end; → the newest run."""
        if self._thread is not None and self._ended.wait(timeout):
            self._thread.join()
        return self.runs[-1] if self.runs else None

    def _set_running(self, running: bool) -> None:
        self.train_button.disabled, self.stop_button.disabled = running, not running
        for control in self.settled:
            control.disabled = running

    def _say(self, done: int, total: int, words: str) -> None:
        self.bar.value = progress_html(done, total, words).data

    def _tell(self, words: Markup) -> None:
        self._say(0, 1, words)

    def _check_stop(self, step: int, **tensors) -> None:
        """The observer of each step; a finished update is still recorded."""
        if step < 7 and self._stop.is_set():
            raise Stopped

    def _train(self, config: RLHFConfig, reward: str) -> None:
        """In the thread: a run from its beginning to its end or to Stop."""
        run, total, words = Run(config), config.iterations, "done"
        run.label = f"yours {len(self.runs) + 1}: β = {config.kl_coef:g}, {reward}"
        try:
            self._say(0, total, "loading the models")
            state = start_run(config, reward=self.rewards[reward], measures=self.measures)
            for _ in record_run(state, run, observe=self._check_stop):
                self._show(run, total)
        except Stopped:
            words = "stopped; what there is was kept"
        except Exception as problem:  # noqa: BLE001 (nobody else would hear of it)
            words = problem_html(problem)
        finally:
            self._end(run, total, words)

    def _end(self, run: Run, total: int, words: str) -> None:
        try:
            if run.history:
                self._show(run, total, last=True)
                self.runs.append(run)
                words = self._hand_over(run) or words
        except Exception as problem:  # noqa: BLE001
            words = problem_html(problem)
        self._say(len(run.history), total, words)
        self._ended.set()
        self._set_running(False)

    def _hand_over(self, run: Run) -> Markup | None:
        """Give the run to `on_run`; → the problem that it had with it, in words."""
        try:
            if self.on_run is not None:
                self.on_run(run)
        except Exception as problem:  # noqa: BLE001 (a listener's, not the training's)
            return problem_html(problem)
        return None

    def _show(self, run: Run, total: int, last: bool = False) -> None:
        """Bar, curves and the newest samples; all but the bar not more often than every half second."""
        record = run.history[-1]
        words = f"score {record['score']:+.2f}   KL {record['kl']:.2f}"
        self._say(len(run.history), total, f"{words}   {record['seconds']:.1f} s an iteration")
        if last or time.monotonic() - self._drawn > PATIENCE:
            show_picture(self.curves, training_curves(run.history, total))
            self.curves.layout.display = ""
            self.samples.value = newest_samples_html(run)
            if not last:
                self._hand_over(run)
            self._drawn = time.monotonic()

    def _ipython_display_(self) -> None:
        """The live widget where there is a kernel; its controls in words where there is none."""
        page = "<i>Run this cell for a trainer with β, iterations, reward, Train and Stop.</i>"
        show_live(self.box, "a live trainer", page=page)


def newest_samples_html(run: Run) -> Markup:
    """One response to each watched prompt at the newest snapshot."""
    shot = run.snapshots[-1]
    rows = [(samples[0].score, samples[0].text) for samples in shot.samples.values()]
    return table(rows, ("score", f"after {shot.iteration} iterations"))
