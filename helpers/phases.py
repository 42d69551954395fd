"""Where an iteration's time and memory go: an observer that looks at the clock between the seven steps."""

import time
from collections import defaultdict
from statistics import fmean

import torch

from helpers.memory import MIB, forget_peak, peak_bytes

# what has just been done when a step is reported; drawing prompts and shaping rewards take no time
PHASES = {2: "rollout", 3: "scoring", 4: "reference", 6: "values and GAE", 7: "update"}


class Phases:
    """Pass as `observe`: `seconds` and `peaks` (bytes) hold one number an iteration for each phase.

    On a GPU it waits at each step's end, since work is only queued there: a little time is lost. On a CPU
    the peak is the largest resident memory, which includes Python and its libraries.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.peaks: dict[str, list[int]] = defaultdict(list)
        self.tokens: list[int] = []  # counted response tokens of each rollout

    def __call__(self, step: int, **tensors) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        if step in PHASES:
            self.seconds[PHASES[step]].append(now - self.began)
            self.peaks[PHASES[step]].append(peak_bytes(self.device))
        if step == 2:
            self.tokens.append(int(tensors["written"].response_mask.sum()))
        forget_peak(self.device)
        self.began = time.perf_counter()

    def mean_seconds(self) -> dict[str, float]:
        """Mean seconds of each phase; the first iteration, which also warms up, is left out of several."""
        return {name: fmean(taken[1:] or taken) for name, taken in self.seconds.items()}

    def tokens_per_second(self) -> float:
        """Response tokens written in a second of rollout."""
        taken = self.seconds["rollout"]
        return sum(self.tokens[1:] or self.tokens) / sum(taken[1:] or taken)

    @property
    def peak(self) -> int:
        """Bytes of the worst phase so far."""
        return max(max(found) for found in self.peaks.values())

    def table(self) -> str:
        """Seconds, share of the iteration and peak MiB by phase."""
        means = self.mean_seconds()
        whole = sum(means.values())
        lines = [f"{'phase':16}{'seconds':>9}{'share':>8}{'peak MiB':>11}"]
        for name, seconds in means.items():
            peak = max(self.peaks[name]) / MIB
            lines.append(f"{name:16}{seconds:9.3f}{seconds / whole:8.0%}{peak:11,.0f}")
        return "\n".join([*lines, f"{'iteration':16}{whole:9.3f}{'':8}{self.peak / MIB:11,.0f}"])
