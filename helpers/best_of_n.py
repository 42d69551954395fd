"""Best-of-n: draw n responses from the reference, keep the one with the highest score.

The policy with no training at all (Stiennon et al. 2020; Gao et al. 2023). Every figure here comes
from N ≥ 4n reference samples a prompt, whose ties are real: two samples that are the same response
must have the very same score, so score each distinct response once.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.validate import (
    require,
    require_count,
    require_finite,
    require_shape,
    require_tensor,
)


@dataclass(frozen=True)
class BestOfN:
    """Means over prompts, under best-of-n."""

    n: int
    score: float  # of the chosen response
    kl: float  # KL(best-of-n‖π_ref), nats per response, measured
    kl_bound: float  # log n − (n − 1)/n, which kl reaches only if no two responses ever tie
    extra: float | None  # another measure of the chosen response, where one was given


def best_of_n(ref_scores: Tensor, n: int, extra: Tensor | None = None) -> BestOfN:
    """Score, KL and, if given, another measure (gold [P, N]) of best-of-n from ref_scores [P, N].

    ValueError: n < 1, N < 4n, shapes, non-finite numbers.
    """
    weights = best_of_n_weights(ref_scores, n)
    if extra is not None:
        require_shape("extra", extra, ref_scores.shape, like="ref_scores")
        require_finite("extra", extra)
        extra = (weights * extra).sum(dim=1).mean().item()
    score = (weights * ref_scores).sum(dim=1).mean().item()
    kl = best_of_n_kl(ref_scores, n).mean().item()
    return BestOfN(n, score, kl, math.log(n) - (n - 1) / n, extra)


def best_of_n_weights(ref_scores: Tensor, n: int) -> Tensor:
    """Probability that each sample is the best of n drawn without replacement: [P, N] → [P, N].

    The k-th smallest of N is the best of C(k−1, n−1) of the C(N, n) subsets, so a group of ties from
    k = low + 1 to high is so in C(high, n) − C(low, n), shared equally. Unbiased for any measure of
    the chosen response. float64; rows sum to 1. ValueError as `best_of_n`.
    """
    _check(ref_scores, n)
    ordered = ref_scores.sort(dim=1).values
    low, high = _tie_groups(ordered, ref_scores)
    chosen = _share_of_subsets(high, n) - _share_of_subsets(low, n)
    return chosen / (high - low)


def best_of_n_kl(ref_scores: Tensor, n: int) -> Tensor:
    """KL(best-of-n‖π_ref) of each prompt in nats, ties kept: [P, N] → [P].

    Equal scores are chosen between at random, so the ratio of probabilities depends on the score s
    alone and KL = E_best log{[F(s)ⁿ − F(s⁻)ⁿ]/[F(s) − F(s⁻)]}, F the distribution function of the
    scores (Beirami et al. 2024). The empirical F put in there is biased low, by up to 0.1 nat at
    N = 4n when scores tie; the delete-one jackknife (Quenouille 1956) takes most of that out. Bias
    measured on sets of 1 to 1,000 distinct scores: within ±0.005 nat at N = 4n, ±0.002 at N = 16n;
    with no ties at all +0.003 and +0.0002. One prompt's estimate may lie above the bound or below 0.
    ValueError as `best_of_n`.
    """
    _check(ref_scores, n)
    ordered = ref_scores.double().sort(dim=1).values
    low, high = _tie_groups(ordered, ordered)
    samples = ordered.shape[1]
    plug_in = _kl_terms(low, high, samples, n) / (high - low)
    left_out = _delete_one_means(low, high, samples, n)
    return samples * plug_in.sum(dim=1) - (samples - 1) * left_out


def _delete_one_means(low: Tensor, high: Tensor, samples: int, n: int) -> Tensor:
    """The plug-in KL with one sample left out, mean over which one: [P, N] → [P].

    Leaving out a sample lowers by one the ranks of the groups above, makes its own group smaller,
    and changes nothing below: running sums give all N of them at once.
    """
    rest, size = samples - 1, high - low
    below = _running_sum(_kl_terms(low, high, rest, n) / size).gather(1, low)
    own = _kl_terms(low, high - 1, rest, n)
    shifted = _running_sum(_kl_terms((low - 1).clamp(min=0), high - 1, rest, n) / size)
    above = shifted[:, -1:] - shifted.gather(1, high)
    return (below + own + above).mean(dim=1)


def _kl_terms(low: Tensor, high: Tensor, samples: int, n: int) -> Tensor:
    """q·log(q/p) of the group of ranks low + 1 … high: p its share of samples, q of best-of-n."""
    chosen = (high.double() / samples) ** n - (low.double() / samples) ** n
    return torch.xlogy(chosen, chosen * samples / (high - low).clamp(min=1))


def _running_sum(x: Tensor) -> Tensor:
    """Sums of the first 0, 1, … N entries: [P, N] → [P, N + 1]."""
    return torch.nn.functional.pad(x.cumsum(dim=1), (1, 0))


def _tie_groups(ordered: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """How many of the row are below each score, and how many are no higher: [P, N] each."""
    scores = scores.contiguous()
    return torch.searchsorted(ordered, scores), torch.searchsorted(ordered, scores, right=True)


def _share_of_subsets(rank: Tensor, n: int) -> Tensor:
    """C(rank, n)/C(N, n), the share of the n-subsets that lie within the lowest `rank`: [P, N]."""
    ranks = torch.arange(rank.shape[1] + 1, dtype=torch.float64, device=rank.device)
    log_subsets = torch.lgamma(ranks + 1) - torch.lgamma((ranks - n).clamp(min=0) + 1)
    log_subsets[:n] = -math.inf  # too few to draw n from
    return (log_subsets - log_subsets[-1]).exp()[rank]


def _check(ref_scores: Tensor, n: int) -> None:
    require_count("n", n)
    require_tensor("ref_scores", ref_scores, dims=2)
    require_finite("ref_scores", ref_scores)
    prompts, samples = ref_scores.shape
    require(prompts >= 1, "ref_scores", "no prompt", "at least one row")
    wants = f"at least 4·n = {4 * n} samples a prompt"
    require(samples >= 4 * n, "ref_scores", f"{samples} samples a prompt", wants)
