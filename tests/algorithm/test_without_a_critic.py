"""RLOO, GRPO and REINFORCE: gradients by enumeration, losses by their definitions, and the loop."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from conftest import SMALL, tiny_models, watched
from hypothesis import given
from strategies import METHODS, close, flat, padded_batches, ppo_config, seeded, tiny_world, updated

from helpers import groups
from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.models import fingerprint
from helpers.ppo import kl_loss, policy_loss, ppo_update_step
from helpers.sampling import Responses
from helpers.state import load_models, start_run
from helpers.steps import draw_prompts

# --- the expected gradient, over all groups there can be ------------------------------------------

LOGITS = torch.tensor([0.4, -0.3, 1.1], dtype=torch.float64)
REWARDS = torch.tensor([1.0, 0.2, -0.5], dtype=torch.float64)


def expected_gradient(size: int, **changes) -> torch.Tensor:
    """E[−∇ policy loss] of one-token responses, over every group of K of the three answers."""
    config = RLHFConfig(batch_size=size, responses_per_prompt=size, **{"method": "rloo"} | changes)
    found, probs = torch.zeros(3, dtype=torch.float64), LOGITS.softmax(0)
    mask = torch.ones(size, 1, dtype=torch.bool)
    for answers in itertools.product(range(3), repeat=size):
        logits = LOGITS.clone().requires_grad_()
        logprobs = logits.log_softmax(0)[list(answers)].unsqueeze(1)
        advantages = groups.group_advantages(REWARDS[list(answers)].unsqueeze(1), mask, config)
        loss, _ = policy_loss(logprobs, logprobs.detach(), advantages, mask)
        (gradient,) = torch.autograd.grad(loss, logits)
        found -= probs[list(answers)].prod() * gradient
    return found


def exact_gradient() -> torch.Tensor:
    """∇ of the expected reward."""
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((logits.softmax(0) * REWARDS).sum(), logits)
    return gradient


@pytest.mark.parametrize("size", [2, 3, 4])
def test_rloo_s_expected_gradient_is_the_exact_one_and_the_mean_of_the_whole_group_shrinks_it(size):
    close(expected_gradient(size), exact_gradient(), 1e-9, 1e-9)
    centred = expected_gradient(size, method="grpo", scale_by_std=False)
    close(centred, exact_gradient() * (size - 1) / size, 1e-9, 1e-9)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.8])
def test_the_weight_of_a_prompt_is_exact_without_the_std(p, size):
    """Over all groups of right and wrong answers."""
    found, centred = {}, {"method": "grpo", "scale_by_std": False}
    kinds = {"rloo": {"method": "rloo"}, "centred": centred}
    for method, changes in kinds.items():
        config = RLHFConfig(batch_size=size, responses_per_prompt=size, **changes)
        mask, total = torch.ones(size, 1, dtype=torch.bool), 0.0
        for answers in itertools.product((0.0, 1.0), repeat=size):
            odds = torch.tensor(math.log(p / (1 - p)), dtype=torch.float64, requires_grad=True)
            rewards = torch.tensor(answers, dtype=torch.float64).unsqueeze(1)
            signs = 2 * rewards - 1
            logprobs = torch.nn.functional.logsigmoid(signs * odds)
            advantages = groups.group_advantages(rewards, mask, config)
            loss, _ = policy_loss(logprobs, logprobs.detach(), advantages, mask)
            chance = p ** sum(answers) * (1 - p) ** (size - sum(answers))
            total -= chance * float(torch.autograd.grad(loss, odds)[0])
        found[method] = total
    assert found["rloo"] == pytest.approx(p * (1 - p), abs=1e-9)
    assert found["centred"] == pytest.approx(p * (1 - p) * (size - 1) / size, abs=1e-9)


def aggregated_gradient(how: str, size: int = 3) -> torch.Tensor:
    """E[−∇ loss] by the logits of four answers: right and wrong ones, of 2 tokens and of 6."""
    logits, lengths = torch.zeros(4, dtype=torch.float64), torch.tensor([2, 6, 2, 6])
    rewards = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    mean = groups.loss_mean(ppo_config(method="rloo", loss_aggregation=how, response_length=6))
    found = torch.zeros(4, dtype=torch.float64)
    for answers in itertools.product(range(4), repeat=size):
        leaf, picked = logits.clone().requires_grad_(), list(answers)
        n = lengths[picked].unsqueeze(1)
        mask = torch.arange(6) < n
        logprobs = (leaf.log_softmax(0)[picked].unsqueeze(1) / n).expand(-1, 6)  # sums to log π
        advantages = groups.rloo_advantages(rewards[picked], size).unsqueeze(1) * mask
        loss, _ = policy_loss(logprobs, logprobs.detach(), advantages, mask, mean=mean)
        (gradient,) = torch.autograd.grad(loss, leaf)
        found -= gradient / 4**size
    return found


def test_the_mean_of_means_prefers_short_right_and_long_wrong_answers():
    """Only a fixed divisor leaves the exact gradient: it treats right answers of any length alike."""
    short_right, long_right, short_wrong, long_wrong = aggregated_gradient("response").tolist()
    assert short_right > 1.2 * long_right > 0 > 1.2 * long_wrong > 1.4 * short_wrong
    fixed = aggregated_gradient("fixed")
    exact = torch.tensor([0.125, 0.125, -0.125, -0.125], dtype=torch.float64)  # ∇ of E[reward]
    close(fixed, exact / 6, 1e-9, 1e-9)
    by_token = aggregated_gradient("token")
    assert float(by_token[0] / by_token[1]) < short_right / long_right


# --- the parts of the loss ------------------------------------------------------------------------


@given(padded_batches(tensors=1, allow_empty_rows=False))
def test_the_means_are_what_they_are_called(batch):
    x, mask = batch
    rows = [x[i][mask[i]].tolist() for i in range(len(x))]
    by_row = [sum(row) / len(row) for row in rows]
    close(groups.mean_of_means(x, mask), sum(by_row) / len(by_row), 1e-5)
    close(groups.mean_over_length(x, mask, 10), sum(map(sum, rows)) / (10 * len(rows)), 1e-5)


@given(padded_batches(tensors=2, allow_empty_rows=False))
def test_the_sequence_ratio_is_the_geometric_mean_of_the_tokens_ratios(batch):
    logprobs, old, mask = batch
    found = groups.sequence_log_ratio(logprobs, old, mask)
    for i in range(len(mask)):
        each = [(logprobs[i, t] - old[i, t]).item() for t in mask[i].nonzero().flatten().tolist()]
        close(found[i][mask[i]], torch.full((len(each),), sum(each) / len(each)), 1e-5)
    assert bool((found[~mask] == 0).all())


def test_clip_higher_lets_a_good_token_go_further_and_a_bad_one_not():
    logprobs, advantages = torch.tensor([[1.25, 0.75]]).log(), torch.tensor([[1.0, -1.0]])
    old, mask = torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
    for high, clipped in ((None, 1.0), (0.28, 0.5)):
        stats = policy_loss(logprobs, old, advantages, mask, 0.2, high)[1]
        assert float(stats["clip_fraction"]) == clipped


ANSWERS = 5


def kl_gradients(estimate: str, ratio: bool, on_policy: bool) -> tuple[torch.Tensor, ...]:
    """(expected gradient of the KL loss over samples of π_old, ∇KL(π‖π_ref), ∇KL(π_ref‖π))."""
    start, other, ref = torch.randn(3, ANSWERS, generator=seeded(4), dtype=torch.float64)
    logits = start.requires_grad_()
    old = logits.detach() if on_policy else other
    logp, old_logp, ref_logp = (x.log_softmax(0).unsqueeze(1) for x in (logits, old, ref))
    config = SimpleNamespace(kl_loss=estimate, kl_ratio=ratio)
    mask = torch.ones(ANSWERS, 1, dtype=torch.bool)
    batch = SimpleNamespace(response_mask=mask, logprobs=old_logp, ref_logprobs=ref_logp)
    per_token = kl_loss(logp, batch, config)
    grad = lambda x: torch.autograd.grad(x, logits, retain_graph=True)[0]  # noqa: E731
    reverse = (logp.exp() * (logp - ref_logp)).sum()
    forward = (ref_logp.exp() * (ref_logp - logp)).sum()
    return grad((old_logp.exp().detach() * per_token).sum()), grad(reverse), grad(forward)


@pytest.mark.parametrize("on_policy", [True, False])
@pytest.mark.parametrize("estimate", ["k1", "k2", "k3"])
def test_with_the_ratio_every_estimate_has_the_gradient_of_the_kl(estimate, on_policy):
    found, reverse, _ = kl_gradients(estimate, ratio=True, on_policy=on_policy)
    close(found, reverse, 1e-9, 1e-9)


def test_without_the_ratio_k1_says_nothing_k2_is_right_on_policy_and_k3_has_the_forward_kl_s_gradient():
    close(kl_gradients("k1", ratio=False, on_policy=True)[0], torch.zeros(ANSWERS).double(), 1e-9)
    found, reverse, _ = kl_gradients("k2", ratio=False, on_policy=True)
    close(found, reverse, 1e-9, 1e-9)
    found, reverse, forward = kl_gradients("k3", ratio=False, on_policy=True)
    close(found, forward, 1e-9, 1e-9)
    assert (found - reverse).norm() > 0.1 * reverse.norm()
    for estimate in ("k2", "k3"):
        found, reverse, _ = kl_gradients(estimate, ratio=False, on_policy=False)
        assert (found - reverse).norm() > 0.1 * reverse.norm()


# --- one update -----------------------------------------------------------------------------------


def test_without_a_critic_the_policy_moves_as_beside_one_that_is_not_trained():
    world = tiny_world()
    options = {"optimizer": "sgd", "learning_rate": 0.05, "max_grad_norm": 1e9}
    metrics, weights, _ = updated(world, critic=False, method="rloo", **options)
    assert not {"value_loss", "value_clip_fraction", "explained_variance"} & set(metrics)
    beside, policy, _ = updated(world, vf_coef=0.0, **options)
    close(weights, policy, 1e-7)
    assert {name: beside[name] for name in metrics} == pytest.approx(metrics)


def test_equal_groups_have_advantages_of_exactly_zero():
    rewards = torch.tensor([0.1, 0.1, 0.1, 0.7, 0.1, 0.1])
    assert groups.equal_groups(rewards, 3).tolist() == [True] * 3 + [False] * 3
    config = RLHFConfig(batch_size=6, method="grpo", responses_per_prompt=3)
    mask = torch.ones(6, 1, dtype=torch.bool)
    advantages = groups.group_advantages(rewards.unsqueeze(1), mask, config)
    assert advantages[:3].eq(0).all() and advantages[3:].ne(0).all()


# --- the loop -------------------------------------------------------------------------------------


def lone(seed: int = 0):
    """Tiny models without a critic."""
    return replace(tiny_models(seed), critic=None)


def settings(name: str, **more) -> RLHFConfig:
    return RLHFConfig(iterations=3, **SMALL | METHODS[name] | more)


def test_the_responses_to_a_prompt_stand_together(prompts):
    state = start_run(settings("rloo"), lone(), prompts=prompts)
    drawn = draw_prompts(state)
    assert len(drawn) == 8 and drawn[0] == drawn[3] != drawn[4] == drawn[7]
    alone = start_run(settings("reinforce", batch_size=2), lone(), prompts=prompts)
    assert draw_prompts(alone) == [drawn[0], drawn[4]]  # the same draw, without copies


def test_reinforce_is_ppo_with_a_critic_that_says_zero(prompts):
    """γ = λ = 1 and a new value head, which says 0: the advantages are the same returns."""
    config = settings("reinforce", gamma=0.9)
    _, alone = watched(start_run(config, lone(), prompts=prompts))
    with_critic = replace(config, method="ppo", lam=1.0)
    _, beside = watched(start_run(with_critic, tiny_models(), prompts=prompts))
    close(alone["advantages"], beside["advantages"])


def test_a_group_s_advantage_is_that_of_score_less_kl(prompts):
    """Every counted token of a response carries the same number; a group's numbers add up to 0."""
    config = settings("rloo", whiten_advantages=False)
    _, seen = watched(start_run(config, lone(), prompts=prompts))
    mask, rewards = seen["mask"], seen["rewards"]
    totals = torch.where(mask, rewards, 0.0).sum(dim=1).view(2, 4)
    wanted = (totals - totals.mean(dim=1, keepdim=True)) * 4 / 3
    close(seen["advantages"][:, 0], wanted.flatten(), 1e-5)
    assert bool((seen["advantages"] == seen["advantages"][:, :1])[mask].all())
    assert isinstance(seen["responses"], Responses)


def paid(rewards: list[float], name: str, prompts: list[str]):
    """A run whose three groups of four get these scores, equal groups skipped; its actor has some KL."""
    once = {"batch_size": 12, "minibatch_size": 12, "num_ppo_epochs": 1, "max_grad_norm": 1e9}
    once |= {"learning_rate": 1e3, "adam_eps": 1e3}  # a step as long as its gradient
    config = settings(name, kl_coef=0.1, skip_equal_groups=True, **once)
    models = replace(lone(), reward=lambda texts: torch.tensor(rewards), actor=lone(seed=1).actor)
    return start_run(config, models, prompts=prompts)


@pytest.mark.parametrize("name, unequal", [("rloo", [0.0, 1, 0, 0]), ("grpo", [0.0, 1, 1, 2])])
def test_the_loop_leaves_out_the_rows_of_equal_groups_and_no_other(name, unequal, prompts):
    """The update is that of the one group that teaches, and RLOO's are whitened over its tokens."""
    rewards = [1.0] * 4 + unequal + [0.0] * 4
    run, alone = paid(rewards, name, prompts), paid(rewards, name, prompts)
    _, seen = watched(run)
    rest = seen["rollout"].rows(torch.arange(4, 8))
    totals, counted = rest.rewards.sum(dim=1), rest.response_mask
    assert (totals - rest.scores).abs().max() > 1e-3  # there is KL in them
    wanted = (totals - totals.mean()) / (totals.std() + (1e-4 if name == "grpo" else 0))
    wanted = torch.where(counted, wanted.unsqueeze(1), 0.0)
    if name == "rloo":
        wanted = (wanted - wanted[counted].mean()) / wanted[counted].std() * counted
    close(rest.advantages, wanted, 1e-5)
    assert not seen["rollout"].advantages[[0, 1, 2, 3, 8, 9, 10, 11]].any()
    whole = replace(alone.config, skip_equal_groups=False)
    ppo_update_step(alone.models.actor, None, rest, alone.optimizer, whole)
    close(flat(run.models.actor), flat(alone.models.actor), 1e-5)
    assert (flat(run.models.actor) - flat(lone(seed=1).actor)).abs().max() > 1e-2  # it does move


@pytest.mark.parametrize("name", ["rloo", "grpo"])
def test_a_run_in_which_all_groups_are_equal_changes_nothing(name, prompts):
    run = paid([1.0] * 12, name, prompts)
    before = fingerprint(run.models.actor)
    records = list(train_rlhf_loop(state=run))
    assert fingerprint(run.models.actor) == before and len(records) == 3
    assert all(math.isfinite(value) for record in records for value in record.values())


def test_a_critic_is_loaded_for_ppo_only(prompts):
    assert load_models(RLHFConfig(method="reinforce", device="cpu")).critic is None
    models = tiny_models()
    state = start_run(settings("rloo"), models, prompts=prompts)
    assert state.models.critic is None and state.models.actor is models.actor
    with pytest.raises(ValueError, match="models.critic: got None, wants a critic, for ppo"):
        start_run(RLHFConfig(normalize_scores=False), lone(), prompts=prompts)
