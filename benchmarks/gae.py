"""`python -m benchmarks.gae`: GAE and whitening against torchrl's: equal numbers, and the time of each.

Random rewards and values [B, T] of responses that end early, as in RLHF; γ = 1, λ = 0.95. torchrl has
a loop over time and a vectorised form; `done` is set at each response's last token.
"""

import argparse
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.common import Span, emit, repeat, show
from helpers.gae import compute_gae
from helpers.kl import last_counted
from helpers.tools.command import exit_status
from helpers.whitening import whiten_advantages

GAMMA, LAM = 1.0, 0.95
SIZES = ((16, 8), (64, 24), (64, 256), (512, 24), (512, 256), (1024, 1024))  # batch, response
TOLERANCE = 1e-6  # of the largest number


def responses(batch: int, length: int) -> tuple:
    """Random rewards, values and mask [B, T]; half of the responses end before the limit."""
    generator = torch.Generator().manual_seed(batch + length)
    lengths = torch.randint(1, 2 * length + 1, (batch, 1), generator=generator).clamp(max=length)
    mask = torch.arange(length) < lengths
    rewards, values = torch.randn(2, batch, length, generator=generator, dtype=torch.float64)
    return rewards.float().where(mask, 0), values.float().where(mask, 0), mask


def torchrl_gae(rewards: Tensor, values: Tensor, mask: Tensor, vectorised: bool) -> tuple:
    """Advantages and returns [B, T] by torchrl; positions after the end are not masked."""
    from torchrl.objectives.value import functional

    name = ("generalized_advantage_estimate", "vec_generalized_advantage_estimate")[vectorised]
    done = torch.zeros_like(mask)
    done.scatter_(1, last_counted(mask).unsqueeze(1), True)
    done[:, -1] = True
    next_values = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    columns = (x.unsqueeze(-1) for x in (values, next_values, rewards, done))
    found = getattr(functional, name)(GAMMA, LAM, *columns)
    return tuple(x.squeeze(-1) for x in found)


def torchrl_whiten(advantages: Tensor, mask: Tensor) -> Tensor:
    """Whitening as in torchrl's GAE module with a mask and all responses in one `group_key` group."""
    from torchrl.objectives.value.advantages import _standardize_by_group

    groups = torch.zeros(len(advantages), dtype=torch.long)
    return _standardize_by_group(advantages, groups, mask)


def gap(ours: Tensor, theirs: Tensor, mask: Tensor) -> float:
    """Largest difference over counted positions, relative to the largest number there."""
    return float((ours - theirs)[mask].abs().max() / theirs[mask].abs().max())


def results(rewards: Tensor, values: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Advantages and whitened advantages [B, T] of each implementation, from the same tensors."""
    ours, _ = compute_gae(rewards, values, GAMMA, LAM, mask)
    loop, _ = torchrl_gae(rewards, values, mask, vectorised=False)
    fast, _ = torchrl_gae(rewards, values, mask, vectorised=True)
    whitened = {
        "whiten": whiten_advantages(ours, mask),
        "torchrl_whiten": torchrl_whiten(ours, mask),
    }
    return {"gae": ours, "torchrl": loop, "torchrl_vectorised": fast} | whitened


def compare(batch: int, length: int) -> dict[str, dict[str, float]]:
    """`gaps`: ours against torchrl's in float64; `errors`: each in float32 against ours in float64.

    The peer in float64 is torchrl's vectorised form: its loop multiplies by a float32 λ even there.
    """
    rewards, values, mask = responses(batch, length)
    exact = results(rewards.double(), values.double(), mask)
    rounded = results(rewards, values, mask)
    peers = {"gae": "torchrl_vectorised", "whiten": "torchrl_whiten"}
    truth = {name: "whiten" if "whiten" in name else "gae" for name in exact}
    return {
        "gaps": {name: gap(exact[name], exact[peer], mask) for name, peer in peers.items()},
        "errors": {name: gap(rounded[name], exact[truth[name]], mask) for name in rounded},
    }


def times(batch: int, length: int, seconds: float) -> dict[str, Span]:
    """Median time per call of each implementation."""
    rewards, values, mask = responses(batch, length)
    advantages, _ = compute_gae(rewards, values, GAMMA, LAM, mask)
    calls: dict[str, Callable[[], object]] = {
        "gae": lambda: compute_gae(rewards, values, GAMMA, LAM, mask),
        "torchrl": lambda: torchrl_gae(rewards, values, mask, vectorised=False),
        "torchrl_vectorised": lambda: torchrl_gae(rewards, values, mask, vectorised=True),
        "whiten": lambda: whiten_advantages(advantages, mask),
        "torchrl_whiten": lambda: torchrl_whiten(advantages, mask),
    }
    return {name: repeat(call, seconds, least=5) for name, call in calls.items()}


def measure(batch: int, length: int, seconds: float) -> dict:
    """Errors and times at one size."""
    taken = {name: span.cpu * 1e3 for name, span in times(batch, length, seconds).items()}
    found = compare(batch, length)
    return {
        "batch": batch,
        "response": length,
        "ms": taken,
        **found,
        "same": max(found["gaps"].values()) <= TOLERANCE,
        "ratio_loop": taken["gae"] / taken["torchrl"],
        "ratio_vectorised": taken["gae"] / taken["torchrl_vectorised"],
        "ratio_whiten": taken["whiten"] / taken["torchrl_whiten"],
    }


def row(found: dict) -> list:
    """One line of the table."""
    ms, errors = found["ms"], found["errors"]
    return [
        f"{found['batch']} × {found['response']}",
        *(ms[name] for name in ("gae", "torchrl", "torchrl_vectorised")),
        *(f"{found[name]:.2f}" for name in ("ratio_loop", "ratio_vectorised")),
        *(f"{errors[name]:.0e}" for name in ("gae", "torchrl", "torchrl_vectorised")),
        *(ms[name] for name in ("whiten", "torchrl_whiten")),
        f"{found['ratio_whiten']:.2f}",
        *(f"{errors[name]:.0e}" for name in ("whiten", "torchrl_whiten")),
    ]


def run(arguments: list[str] | None) -> None:
    """Command line: all sizes, a table, a JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gae", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each timing (0.5)")
    parser.add_argument("--sizes", type=int, default=len(SIZES), help="how many of the sizes (all)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    found = [measure(*size, options.seconds) for size in SIZES[: options.sizes]]
    print("CPU milliseconds per call; float32 errors relative to the largest number")
    header = ["batch × response", "ours", "torchrl", "vectorised", "ratio", "ratio v."]
    header += ["error", "torchrl", "vect.", "whiten", "torchrl", "ratio", "error", "torchrl"]
    show(header, [row(one) for one in found])
    same = sum(one["same"] for one in found)
    print(f"equal to torchrl's within {TOLERANCE:g} in float64: {same} of {len(found)} sizes")
    emit("gae", {"sizes": found})


if __name__ == "__main__":
    sys.exit(exit_status(lambda: run(None), "Stopped."))
