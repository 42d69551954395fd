"""The optimal policy π* and its value J* at a given β, and the efficiency of a policy against them.

J(π) = E_x E_{y∼π(·|x)}[r(x,y)] − β·E_x KL(π(·|x)‖π_ref(·|x)) has its maximum at
π*(y|x) ∝ π_ref(y|x)·exp(r(x,y)/β), with J* = E_x[β·log E_{y∼π_ref(·|x)} exp(r(x,y)/β)]
(Rafailov et al. 2023, appendix A.1): the logarithm is taken per prompt, then averaged over prompts.
Rewards and J are in units of the score, KL in nats per response.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.tools.validate import (
    require,
    require_finite,
    require_positive,
    require_shape,
    require_tensor,
)

# --- sets that can be enumerated ------------------------------------------------------------------


def _check_probabilities(name: str, probs: Tensor) -> None:
    require_tensor(name, probs)
    require_finite(name, probs)
    require(bool((probs >= 0).all()), name, "a negative number", "probabilities")
    has_mass = probs.numel() > 0 and bool((probs.sum(dim=-1) > 0).all())
    require(has_mass, name, "nothing, or a row of zeros", "some mass in every row")


def _check_normalised(name: str, probs: Tensor) -> None:
    _check_probabilities(name, probs)
    worst = (probs.double().sum(dim=-1) - 1).abs().max().item()
    require(worst < 1e-3, name, f"a row that sums to 1 ± {worst:.3g}", "rows that sum to 1")


def _tilted_log_probs(ref_probs: Tensor, rewards: Tensor, kl_coef: float) -> Tensor:
    """log π_ref(y) + r(y)/β, not normalised; −∞ where π_ref is 0. float64."""
    require_positive("kl_coef", kl_coef)
    _check_probabilities("ref_probs", ref_probs)
    require_shape("rewards", rewards, ref_probs.shape, like="ref_probs")
    require_finite("rewards", rewards)
    return ref_probs.double().log() + rewards.double() / kl_coef


def gibbs_policy(ref_probs: Tensor, rewards: Tensor, kl_coef: float) -> Tensor:
    """π*(y) ∝ π_ref(y)·exp(r(y)/β) over the last axis: [..., N], [..., N] → [..., N].

    It maximises E_π[r] − β·KL(π‖π_ref) (Rafailov et al. 2023, eq. 4). β = 0 has no such policy (all
    probability goes to the best answer, however unlikely). ValueError: β ≤ 0, shapes.
    """
    return _tilted_log_probs(ref_probs, rewards, kl_coef).softmax(dim=-1).to(ref_probs.dtype)


def gibbs_value(ref_probs: Tensor, rewards: Tensor, kl_coef: float) -> Tensor:
    """J* = β·log Σ_y π_ref(y)·exp(r(y)/β), exactly: [..., N], [..., N] → [...].

    The maximum of E_π[r] − β·KL(π‖π_ref) over all π; the value of any other π is lower by
    β·KL(π‖π*). Zeros in `ref_probs` are allowed. Computed in float64, because β·log(1 + small) loses
    digits at a large β. ValueError: β ≤ 0, shapes, rows that do not sum to 1.
    """
    _check_normalised("ref_probs", ref_probs)
    log_mean = _tilted_log_probs(ref_probs, rewards, kl_coef).logsumexp(dim=-1)
    return (kl_coef * log_mean).to(ref_probs.dtype)


def kl_divergence(probs: Tensor, other: Tensor) -> Tensor:
    """KL(p‖q) = Σ p·log(p/q) in nats, exactly, over the last axis: [..., N], [..., N] → [...].

    0·log 0 = 0; +∞ where p > 0 and q = 0. ValueError: shapes, rows that do not sum to 1.
    """
    _check_normalised("probs", probs)
    require_shape("other", other, probs.shape, like="probs")
    _check_normalised("other", other)
    return (torch.xlogy(probs, probs) - torch.xlogy(probs, other)).sum(dim=-1)


# --- sets too large to enumerate: estimates from samples ------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """An estimate from samples, with its standard error in the same units."""

    mean: float
    stderr: float


@dataclass(frozen=True, eq=False)
class Optimum:
    """J* and what π* reaches at this β, averaged over prompts, estimated by importance sampling."""

    kl_coef: float
    value: float  # J*, score units, corrected for first-order bias
    stderr: float  # of value: sampling noise, for fixed prompts
    bias: float  # the correction, included in value
    kl: float  # KL(π*‖π_ref), nats per response
    score: float  # E_{y∼π*}[r]
    ess: Tensor  # [P] effective sample size of each prompt


def policy_value(scores: Tensor, kl: Tensor, kl_coef: float) -> Estimate:
    """Estimate J(π) = mean(score − β·Σ_t k1) from fresh samples of π: [P, n], [P, n] → score units.

    One row per prompt, equal weights; `kl` is Σ_t (log π − log π_ref) of each response, in nats. The
    prompts are fixed (stratified sampling), so only the variance within prompts enters the standard
    error: √(Σ_p var_p/n)/P. At least 2 samples per prompt.
    """
    values = scores.double() - kl_coef * kl.double()
    prompts, samples = values.shape
    variance = values.var(dim=1).sum().item() / samples
    return Estimate(values.mean().item(), math.sqrt(variance) / prompts)


def importance_weights(scores: Tensor, kl_coef: float) -> Tensor:
    """Importance weights of π* for samples of the reference, ∝ exp(r/β), rows sum to 1: [P, N] → [P, N]."""
    return (scores.double() / kl_coef).softmax(dim=1)


def effective_sample_size(weights: Tensor) -> Tensor:
    """Effective sample size 1/Σ w² (Kong 1992): [P, N] → [P], from 1 (one sample dominates) to N."""
    return 1 / weights.square().sum(dim=1)


def optimal_value(
    scores: Tensor,
    kl_coef: float,
    min_ess: float = 50.0,
    log_ratios: Tensor | None = None,
    sizes: Sequence[int] | None = None,
) -> Optimum:
    """Estimate J* from N samples per prompt: mean over prompts of β·log mean_i w_i, [P, N] → score units.

    w = exp(r/β)·π_ref/q. The samples are the reference's, q = π_ref; or `sizes` of each of K policies,
    in this order along N, and q = Σ_k (n_k/N)·q_k for every sample, whichever policy drew it (the
    balance heuristic, Veach and Guibas 1995): `log_ratios` [K, P, N] = log q_k − log π_ref. Either way
    the mean of w is unbiased for exp(J*/β). If the reference is one of the q_k, π_ref/q ≤ N/n_ref: a
    good response that the other policies never draw is not lost.

    The log of a mean is biased low, by about half its relative variance; this is added back, and the
    same is done for the self-normalised mean of the score (Owen 2013, ch. 9). Standard error by the
    delta method, each policy's samples a stratum; KL(π*‖π_ref) = (score − J*)/β.

    ValueError: β ≤ 0 (J* does not exist), effective sample size below `min_ess`.
    """
    require_positive("kl_coef", kl_coef)
    prompts, samples = scores.shape
    sizes = [samples] if sizes is None else list(sizes)
    log_ratios = scores.new_zeros(1, prompts, samples) if log_ratios is None else log_ratios
    log_shares = (torch.tensor(sizes).double() / samples).log()
    log_q = (log_ratios + log_shares[:, None, None]).logsumexp(dim=0)  # relative to log π_ref
    log_weights = scores.double() / kl_coef - log_q
    weights = log_weights.softmax(dim=1)
    ess = effective_sample_size(weights)
    smallest, prompt = (x.item() for x in ess.min(dim=0))
    got = f"an effective sample size of {smallest:.0f} at prompt {prompt}, β {kl_coef:g}"
    wants = f"at least {min_ess:g}: more samples, a larger β or a proposal closer to the optimum"
    require(smallest >= min_ess, "scores", got, wants)
    variance = _covariance(weights, weights, sizes)  # of the mean weight, relative
    bias = kl_coef / 2 * variance.mean().item()
    log_means = log_weights.logsumexp(dim=1) - math.log(samples)
    value = kl_coef * log_means.mean().item() + bias
    means = (weights * scores).sum(dim=1)
    parts = weights * (scores - means[:, None])
    score = (means + _covariance(weights, parts, sizes)).mean().item()
    stderr = kl_coef * math.sqrt(variance.sum().item()) / prompts
    return Optimum(kl_coef, value, stderr, bias, (score - value) / kl_coef, score, ess)


def _covariance(x: Tensor, y: Tensor, sizes: list[int]) -> Tensor:
    """Covariance of Σ_i x_i and Σ_i y_i, with `sizes` independent samples of each policy: [P, N] → [P]."""
    strata = zip(x.split(sizes, dim=1), y.split(sizes, dim=1), sizes, strict=True)
    return sum(n / (n - 1) * ((a - a.mean(1, keepdim=True)) * b).sum(1) for a, b, n in strata)


def efficiency(value: Estimate, reference: Estimate, optimum: Optimum | Estimate) -> Estimate:
    """Efficiency (J(π) − J(π_ref))/(J* − J(π_ref)): 0 for the reference, 1 for π*.

    Standard error by the delta method for independent estimates. ValueError: J* ≤ J(π_ref).
    """
    best = optimum if isinstance(optimum, Estimate) else Estimate(optimum.value, optimum.stderr)
    room = best.mean - reference.mean
    require(room > 0, "optimum", f"{best.mean:g}", f"more than the reference's {reference.mean:g}")
    share = (value.mean - reference.mean) / room
    errors = (value.stderr, (1 - share) * reference.stderr, share * best.stderr)
    return Estimate(share, math.hypot(*errors) / room)
