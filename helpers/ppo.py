"""Proximal policy optimisation (PPO): losses of policy and critic, and the update from one rollout."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from helpers.config import RLHFConfig
from helpers.groups import loss_options, sequence_log_ratio
from helpers.kl import kl_estimate
from helpers.models import autocast, gradient_checkpointing
from helpers.rollouts import RolloutBatch, forward_values, gather_logprobs, per_token
from helpers.tools.parallel import gather, merge_shares, sum_gradients, total
from helpers.tools.validate import require, require_mask
from helpers.whitening import masked_mean, masked_var

STATS = ("policy_loss", "entropy", "clip_fraction", "approx_kl", "ratio_error")  # of a minibatch
CRITIC_STATS = ("value_loss", "value_clip_fraction")


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    cliprange: float = 0.2,
    cliprange_high: float | None = None,
    mean: Callable[[Tensor, Tensor], Tensor] = masked_mean,
) -> tuple[Tensor, dict]:
    """Clipped policy loss −mean min(ρA, clip(ρ, 1 ± ε)A), ρ = π/π_old (Schulman et al. 2017, eq. 7).

    All [B, T]; the mean is over counted tokens, unless another `mean` is given; `cliprange_high` is
    the ε above 1 where that differs (Yu et al. 2025). Returns the loss and stats: `ratio` [B, T] (1
    where the mask is False), `clip_fraction` (tokens whose gradient the clip removed), `approx_kl`
    = ½·mean(Δlogp²) in nats per token.
    """
    log_ratio = torch.where(mask, logprobs - old_logprobs, 0.0)
    ratio = log_ratio.exp()
    gain = advantages * ratio
    high = cliprange if cliprange_high is None else cliprange_high
    clipped_gain = advantages * ratio.clamp(1.0 - cliprange, 1.0 + high)
    loss = -mean(torch.minimum(gain, clipped_gain), mask)
    stats = {
        "ratio": ratio.detach(),
        "clip_fraction": masked_mean((clipped_gain < gain).float(), mask).detach(),
        "approx_kl": masked_mean(0.5 * log_ratio.square(), mask).detach(),
    }
    return loss, stats


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, cliprange_value: float = 0.2
) -> tuple[Tensor, dict]:
    """½·mean max((V − R)², (clip(V, V_old ± ε) − R)²) over counted tokens (Huang et al. 2024).

    All [B, T], in reward units. Returns the loss and `clip_fraction`. Because of the max, moving V by
    more than ε never lowers the loss further.
    """
    clipped = torch.clamp(values, old_values - cliprange_value, old_values + cliprange_value)
    square, clipped_square = (values - returns).square(), (clipped - returns).square()
    loss = 0.5 * masked_mean(torch.maximum(square, clipped_square), mask)
    clip_fraction = masked_mean((clipped_square > square).float(), mask)
    return loss, {"clip_fraction": clip_fraction.detach()}


ENTROPY_LOGITS = 2**22  # at once: each step below makes a tensor of their size


def entropy_from_logits(logits: Tensor) -> Tensor:
    """Entropy of softmax(logits) in nats: [..., V] → [...]. A logit may be −inf (probability 0)."""
    size, entropies = logits.shape[-1], []
    for part in logits.reshape(-1, size).split(max(1, ENTROPY_LOGITS // size)):
        logprobs = part.float().log_softmax(dim=-1)
        # 0·log 0 is 0, and so is its gradient
        products = logprobs.exp() * logprobs.masked_fill(logprobs.isneginf(), 0.0)
        entropies.append(-products.sum(dim=-1))
    return torch.cat(entropies).reshape(logits.shape[:-1])


def explained_variance(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """1 − Var(returns − values)/Var(returns) over counted tokens; 0 if all returns are equal."""
    variance = masked_var(returns, mask, unbiased=False)
    residual = masked_var(returns - values, mask, unbiased=False)
    return torch.where(variance > 0, 1.0 - residual / variance.clamp(min=1e-12), 0.0)


def kl_loss(logprobs: Tensor, batch: RolloutBatch, config: RLHFConfig) -> Tensor:
    """KL term of the loss, in nats per counted token [b, T]: the alternative to KL in the reward.

    "k2" has the gradient of KL(π‖π_ref) on the policy's own samples. Without the ratio, the gradient of
    k1 has mean 0, and that of k3 (GRPO's choice) is the forward KL's. With `kl_ratio`, samples of an
    older policy have importance weights π/π_old: k1 and k3 are differentiated through it, k2 is not,
    and all three are right.
    """
    mask = batch.response_mask
    pair = torch.where(mask, logprobs, 0.0), torch.where(mask, batch.ref_logprobs, 0.0)
    kl = kl_estimate(*pair, config.kl_loss)
    if not config.kl_ratio:
        return kl
    ratio = torch.where(mask, logprobs - batch.logprobs, 0.0).exp()
    return kl * (ratio.detach() if config.kl_loss == "k2" else ratio)


def read_policy(policy: nn.Module, batch: RolloutBatch, config: RLHFConfig) -> tuple[Tensor, ...]:
    """Log-probs and entropies of a minibatch's tokens, [b, T] each."""

    def read(logits: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = gather_logprobs(logits, ids)  # first: what needs no gradient is not made again
        with torch.set_grad_enabled(config.entropy_coef > 0):
            return logprobs, entropy_from_logits(logits)

    return per_token(read, policy, *batch.tokens(), temperature=config.temperature)


def minibatch_loss(
    policy: nn.Module,
    value_network: nn.Module | None,
    batch: RolloutBatch,
    config: RLHFConfig,
) -> tuple[Tensor, dict]:
    """Total loss of one minibatch, a scalar, and its parts by name (detached tensors).

    The loss is a mean over counted tokens, or as `loss_aggregation` says; what is reported is always
    a mean over counted tokens. Without a `value_network` there is no critic's loss.
    """
    logprobs, entropy = read_policy(policy, batch, config)  # (b, T) each
    if value_network is not None:
        values = forward_values(value_network, *batch.tokens())  # (b, T)
    mask, options = batch.response_mask, loss_options(config)
    mean, compared = options.get("mean", masked_mean), logprobs
    if config.ratio_level == "sequence":
        compared = batch.logprobs + sequence_log_ratio(logprobs, batch.logprobs, mask)
    old = batch.logprobs, batch.advantages
    loss, actor = policy_loss(compared, *old, mask, config.cliprange, **options)
    stats = {"policy_loss": loss.detach()}
    if value_network is not None:
        targets = values, batch.values, batch.returns
        critic_loss, critic = value_loss(*targets, mask, config.cliprange_value)
        loss = loss + config.vf_coef * critic_loss
        stats["value_loss"] = critic_loss.detach()
        stats["value_clip_fraction"] = critic["clip_fraction"]
    loss = loss - config.entropy_coef * mean(entropy, mask)
    if config.kl_placement == "loss" and config.kl_coef > 0:
        loss = loss + config.kl_coef * mean(kl_loss(logprobs, batch, config), mask)
    stats |= {
        "entropy": masked_mean(entropy, mask).detach(),
        "clip_fraction": actor["clip_fraction"],
        "approx_kl": actor["approx_kl"],
        "ratio_error": (actor["ratio"] - 1.0).abs().max(),
    }
    return loss, stats


def micro_batches(
    batch: RolloutBatch, size: int, by_tokens: bool = True
) -> Iterator[tuple[RolloutBatch, Tensor, Tensor]]:
    """Split a minibatch by response length; yields each part, its share of the loss and of the tokens.

    Responses of similar length are together, without most of their padding; skipped ones are left out.
    The loss is a mean over counted tokens, or else over responses. The shares sum to 1 over all
    processes; a process may have no row of this minibatch.
    """
    kept = ~batch.skipped
    lengths = batch.response_mask.sum(dim=1) * kept
    tokens, rows = total(lengths), total(kept)
    order = lengths.argsort(stable=True)
    for index in filter(len, order[kept[order]].split(size)):
        share = lengths[index].sum() / tokens
        yield batch.rows(index), share if by_tokens else len(index) / rows, share


def accumulate_gradients(
    policy: nn.Module,
    value_network: nn.Module | None,
    batch: RolloutBatch,
    config: RLHFConfig,
) -> dict:
    """Sum the gradient of one minibatch over its micro-batches; returns the stats of `minibatch_loss`.

    The loss is a mean over counted tokens (or over responses), so micro-batches weighted by their
    share of them give the gradient of the whole minibatch, with less memory.
    """
    names = STATS if value_network is None else STATS + CRITIC_STATS
    means = dict.fromkeys(names, batch.scores.new_zeros(()))
    by_tokens = config.loss_aggregation == "token"
    recompute = partial(gradient_checkpointing, on=config.gradient_checkpointing)
    for part, weight, share in micro_batches(batch, config.micro_batch_size, by_tokens):
        half = autocast(batch.scores.device, config.mixed_precision)
        with half, recompute(policy, value_network):
            loss, stats = minibatch_loss(policy, value_network, part, config)
        (loss * weight).backward()
        worst = torch.maximum(means["ratio_error"], stats["ratio_error"])
        shares = dict.fromkeys(names, share) | {"policy_loss": weight}
        means = {name: means[name] + shares[name] * stats[name] for name in names}
        means["ratio_error"] = worst
    return merge_shares(means, largest="ratio_error")


def gradient_step(parameters: list, optimizer, max_grad_norm: float) -> Tensor:
    """Sum the gradients of all processes, clip their norm, step; → the norm before the clip.

    ValueError: NaN or infinite.
    """
    sum_gradients(parameters)
    grad_norm = nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    wants = "a finite norm: a lower learning rate, or a look at the scores"
    require(bool(grad_norm.isfinite()), "gradient", f"norm {float(grad_norm)}", wants)
    optimizer.step()
    return grad_norm


def mean_stats(history: list[dict], weights: list) -> dict:
    """Weighted mean over gradient steps of each of their stats: dicts of scalars → floats by name."""
    rows = torch.stack([torch.stack([x.float() for x in stats.values()]) for stats in history])
    weights = torch.stack([torch.as_tensor(x, device=rows.device).float() for x in weights])
    means = (rows * weights.unsqueeze(1)).sum(dim=0) / weights.sum()
    return dict(zip(history[0], means.tolist(), strict=True))


def ppo_update_step(
    policy: nn.Module,
    value_network: nn.Module | None,
    rollout: RolloutBatch,
    optimizer: torch.optim.Optimizer,
    config: RLHFConfig,
    generator: torch.Generator | None = None,
) -> dict:
    """PPO update: all epochs and minibatches of one rollout (Schulman et al. 2017, algorithm 1).

    `optimizer` holds the parameters of both networks (of the policy alone where `value_network` is
    None); `generator` (CPU) shuffles; with several processes each holds a part of the rollout and all
    make the same step. Returns floats: `policy_loss`, `value_loss`, `entropy`, `clip_fraction`, `approx_kl`,
    `value_clip_fraction` and `grad_norm` (means over the gradient steps, weighted by counted tokens),
    `kl` (nats per response against the reference, before the update), `explained_variance` (of the
    critic before the update) and `first_ratio_error` (max |ρ − 1| on the very first minibatch: 0 up
    to rounding, or there is a bug); without a critic what is the critic's is left out. ValueError: no
    counted token, non-finite input or gradient.
    """
    mask = rollout.response_mask
    require_mask("response_mask", mask, mask.shape)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    history, weights = [], []
    for _ in range(config.num_ppo_epochs):
        for batch in rollout.minibatches(config.minibatch_size, generator):
            optimizer.zero_grad(set_to_none=True)
            stats = accumulate_gradients(policy, value_network, batch, config)
            weights.append(total(batch.response_mask))
            stats["grad_norm"] = gradient_step(parameters, optimizer, config.max_grad_norm)
            history.append(stats)
    metrics = mean_stats(history, weights)
    del metrics["ratio_error"]
    kl = torch.where(mask, kl_estimate(rollout.logprobs, rollout.ref_logprobs), 0.0).sum(dim=1)
    metrics["kl"] = float(gather(kl).mean())
    if value_network is not None:
        everyone = gather(rollout.values), gather(rollout.returns), gather(mask)
        metrics["explained_variance"] = float(explained_variance(*everyone))
    return metrics | {"first_ratio_error": float(history[0]["ratio_error"])}
