"""The exact answer: what the best policy at a given β looks like, where it can be written down."""

from torch import Tensor

from helpers.validate import (
    require,
    require_finite,
    require_positive,
    require_shape,
    require_tensor,
)


def gibbs_policy(ref_probs: Tensor, rewards: Tensor, kl_coef: float) -> Tensor:
    """π*(y) ∝ π_ref(y)·exp(r(y)/β) over the last axis: [..., N], [..., N] → [..., N].

    It maximises E_π[r] − β·KL(π‖π_ref) (Rafailov et al. 2023, eq. 4). At β = 0 there is no such
    policy (all mass goes to the best answer, however unlikely), so β ≤ 0 raises ValueError.
    """
    require_positive("kl_coef", kl_coef)
    require_tensor("ref_probs", ref_probs)
    require_shape("rewards", rewards, ref_probs.shape, like="ref_probs")
    require_finite("ref_probs", ref_probs)
    require_finite("rewards", rewards)
    require(bool((ref_probs >= 0).all()), "ref_probs", "a negative number", "probabilities")
    has_mass = bool((ref_probs.sum(dim=-1) > 0).all())
    require(has_mass, "ref_probs", "a row of zeros", "some mass in every row")
    return (ref_probs.log() + rewards / kl_coef).softmax(dim=-1)
