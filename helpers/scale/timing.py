"""Time and peak memory of each phase of an iteration: an observer of the seven steps."""

import time
from collections import defaultdict
from statistics import fmean

import torch

from helpers.scale.memory import MIB, peak_bytes, reset_peak

# the phase that ends with each step; drawing prompts and shaping rewards take no time
PHASES = {2: "rollout", 3: "scoring", 4: "reference", 6: "values and GAE", 7: "update"}


class PhaseTimes:
    """Pass as `observe`: `seconds` and `peaks` (bytes) get one number per iteration and phase.

    On a GPU it synchronises at the end of each step, which costs a little time. On a CPU the peak is
    the resident size, which includes Python and its libraries.
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
            self.tokens.append(int(tensors["responses"].response_mask.sum()))
        reset_peak(self.device)
        self.began = time.perf_counter()

    def mean_seconds(self) -> dict[str, float]:
        """Mean seconds of each phase, without the first iteration (warm-up) if there are several."""
        return {name: fmean(taken[1:] or taken) for name, taken in self.seconds.items()}

    def tokens_per_second(self) -> float:
        """Response tokens per second of rollout."""
        taken = self.seconds["rollout"]
        return sum(self.tokens[1:] or self.tokens) / sum(taken[1:] or taken)

    @property
    def peak(self) -> int:
        """Largest peak of all phases, in bytes."""
        return max(max(found) for found in self.peaks.values())

    def table(self) -> str:
        """Table of seconds, share of the iteration and peak MiB per phase."""
        means = self.mean_seconds()
        whole = sum(means.values())
        lines = [f"{'phase':16}{'seconds':>9}{'share':>8}{'peak MiB':>11}"]
        for name, seconds in means.items():
            peak = max(self.peaks[name]) / MIB
            lines.append(f"{name:16}{seconds:9.3f}{seconds / whole:8.0%}{peak:11,.0f}")
        return "\n".join([*lines, f"{'iteration':16}{whole:9.3f}{'':8}{self.peak / MIB:11,.0f}"])
