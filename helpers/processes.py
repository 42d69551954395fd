"""One process or several: what the loop asks of the others. Here there are none, and every sum is its own."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


class OneProcess:
    """The whole batch is here. `helpers.distributed` has the same seven answers for several processes."""

    rank, count = 0, 1
    mixed = False  # whether forwards run in half precision by autocast

    def mine(self, rows: list) -> list:
        """This process's part of a global batch, in rank order."""
        return rows

    def add(self, x: Tensor) -> Tensor:
        """Sum over all elements and all processes: any shape → scalar."""
        return torch.sum(x)

    def gather(self, x: Tensor) -> Tensor:
        """One number per response, from all processes in rank order: [b] → [B]."""
        return x

    def minibatches(self, rollout, size: int, generator: torch.Generator | None) -> Iterator:
        """This process's rows of each *global* minibatch of `size` responses."""
        return rollout.minibatches(size, generator)

    def merge(self, stats: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add up shares of global means; of `ratio_error` the largest."""
        return stats

    def sum_gradients(self, parameters: list) -> None:
        """Give every process the sum of all gradients (not the mean: the loss has the global count)."""

    def autocast(self) -> AbstractContextManager:
        """Where forwards run: in mixed precision, if that was asked for."""
        return nullcontext()


ALONE = OneProcess()
