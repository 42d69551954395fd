"""Collectives over the whole batch, wherever its rows are; in one process each returns what it was given.

Every process holds whole copies of the models and an equal part of each batch. Plain sums and not
DistributedDataParallel: that averages over processes, which is right only where all hold as many
counted tokens, and wants as many backward passes from each.
"""

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    """How many processes work on one batch: 1, unless a group was joined (`scale.distributed`)."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """This process among them, from 0; process 0 speaks and writes."""
    return dist.get_rank() if world_size() > 1 else 0


def share(rows: list) -> list:
    """This process's part of a global batch, which divides by their number (`start_run` asks)."""
    size = len(rows) // world_size()
    return rows[rank() * size : (rank() + 1) * size]


def rows_here(index: Tensor, rows: int) -> Tensor:
    """Of some rows of the global batch, those of this process, which holds `rows`: numbers from 0."""
    first = rank() * rows
    return index[(index >= first) & (index < first + rows)] - first


def _all_reduce(x: Tensor, largest: bool = False) -> Tensor:
    """Elementwise sum (or maximum) over all processes, in place."""
    if world_size() > 1:
        dist.all_reduce(x, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
    return x


def total(x: Tensor) -> Tensor:
    """Sum over all elements and all processes: any shape → scalar."""
    return _all_reduce(torch.sum(x))


def _all_gather(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.stack(parts)


def gather(x: Tensor) -> Tensor:
    """The rows of all processes in their order, padded with zeros to the longest: [b, …] → [B, …]."""
    if world_size() == 1:
        return x
    here = x.cuda() if dist.get_backend() == "nccl" else x
    shapes = _all_gather(torch.tensor(x.shape, device=here.device))
    padded = here.new_zeros(shapes.amax(dim=0).tolist())
    padded[tuple(slice(size) for size in x.shape)] = here
    parts = zip(_all_gather(padded), shapes[:, 0].tolist(), strict=True)
    return torch.cat([part[:rows] for part, rows in parts]).to(x.device)


def merge_shares(stats: dict[str, Tensor], largest: str) -> dict[str, Tensor]:
    """Add up shares of global means; of the one named `largest` take the maximum."""
    if world_size() == 1:
        return stats
    summed = _all_reduce(torch.stack([value.float() for value in stats.values()]))
    worst = _all_reduce(stats[largest].float(), largest=True)
    return dict(zip(stats, summed, strict=True)) | {largest: worst}


def sum_gradients(parameters: list) -> None:
    """Give every process the sum of all gradients (not the mean: the loss has the global count).

    One flat vector over the wire. A parameter without gradient here may have one elsewhere.
    """
    held = any(parameter.grad is not None for parameter in parameters)
    if world_size() == 1 or total(torch.tensor(held, device=parameters[0].device)) == 0:
        return  # without a gradient anywhere Adam makes no step, as in one process
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in parameters]
    flat = _all_reduce(torch.cat([gradient.flatten() for gradient in gradients]))
    parts = flat.split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def same_everywhere(digest: str) -> bool:
    """Whether all processes hold the same hexadecimal digest."""
    bytes_here = torch.tensor(list(bytes.fromhex(digest)), dtype=torch.uint8)
    everywhere = gather(bytes_here).view(world_size(), -1)
    return bool((everywhere == everywhere[0]).all())
