"""The loop: its invariants at every iteration, exact resumption, refusals, the trace."""

import re
from dataclasses import replace

import pytest
import torch
from conftest import length_reward, moved, strip, tiny_models, trained

from helpers.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from helpers.loop import train_rlhf_loop
from helpers.models import fingerprint, freeze
from helpers.prompts import Prompt
from helpers.reward_model import RewardModel
from helpers.rollouts import forward_logprobs
from helpers.sampling import SampledText, sample_responses
from helpers.state import start_run
from helpers.steps import evaluate, full_logprobs, generate_responses, iterate
from helpers.trace import Trace
from helpers.world.small_models import make_encoder


def test_every_iteration_starts_at_ratio_one_and_the_first_at_kl_zero(config, models, prompts):
    history = list(train_rlhf_loop(config, models, prompts=prompts))
    assert [record["iteration"] for record in history] == [1, 2, 3, 4]
    assert all(record["first_ratio_error"] <= 1e-4 for record in history)
    assert abs(history[0]["kl"]) <= 1e-4
    assert history[-1]["kl"] != 0.0


def test_the_reference_is_not_trained_and_the_actor_is(config, models, prompts):
    """Nor is a reward model, also one that was not frozen before."""
    models.reward = RewardModel(make_encoder(models.tokenizer, 1, 32), models.tokenizer)
    roles = ("actor", "critic", "reference", "reward")
    before = {role: fingerprint(getattr(models, role)) for role in roles}
    list(train_rlhf_loop(config, models, prompts=prompts))
    changed = [role for role in roles if fingerprint(getattr(models, role)) != before[role]]
    assert changed == ["actor", "critic"]


@pytest.fixture
def saved(tmp_path, config, prompts):
    state = start_run(config, tiny_models(), prompts=prompts)
    iterate(state)
    save_checkpoint(state, tmp_path)
    return tmp_path


def test_a_run_may_be_lengthened_and_not_shortened(saved, config):
    with pytest.raises(ValueError, match="iterations: got 3, wants at least 4, as saved"):
        load_checkpoint(saved, replace(config, iterations=3), tiny_models())
    longer = load_checkpoint(saved, replace(config, iterations=9), tiny_models())
    records = list(train_rlhf_loop(state=longer))
    assert [record["iteration"] for record in records] == list(range(2, 10))
    rates = [record["learning_rate"] for record in longer.history]
    whole = longer.config.learning_rate
    assert rates[1:] == pytest.approx([whole * (1 - k / 9) for k in range(1, 9)])


def test_the_same_cell_run_again_goes_on_where_it_was_cut_off(tmp_path, normalizing, prompts):
    config = replace(normalizing, checkpoint_every=2)
    whole = start_run(config, tiny_models(), prompts=prompts)
    list(train_rlhf_loop(state=whole))

    def cell(models):
        return train_rlhf_loop(config, models, prompts=prompts, save_dir=tmp_path, resume=True)

    cut = cell(tiny_models())
    next(cut), next(cut), next(cut)
    cut.close()  # the third iteration is lost: the last checkpoint is of the second
    models = tiny_models()
    assert [record["iteration"] for record in cell(models)] == [3, 4]
    assert fingerprint(models.actor) == fingerprint(whole.models.actor)
    assert list(cell(models)) == []  # finished


def test_what_cannot_be_resumed_is_refused(saved, config, prompts):
    again = {"models": tiny_models(), "save_dir": saved, "resume": True}
    with pytest.raises(ValueError, match="prompts: got others than the run in save_dir"):
        next(train_rlhf_loop(config, prompts=["the soup"], **again))
    with pytest.raises(ValueError, match="seed: got 7, wants 0 as saved"):
        next(train_rlhf_loop(replace(config, seed=7), prompts=prompts, **again))
    with pytest.raises(ValueError, match="resume: got True without save_dir"):
        next(train_rlhf_loop(config, tiny_models(), prompts=prompts, resume=True))
    state = start_run(config, tiny_models(), prompts=prompts)
    with pytest.raises(ValueError, match="resume: got True with a state"):
        next(train_rlhf_loop(state=state, save_dir=saved, resume=True))


def test_another_thread_count_is_refused(saved):
    torch.set_num_threads(2)
    try:
        with pytest.raises(ValueError, match="threads: got 2, wants 1"):
            load_checkpoint(saved, models=tiny_models())
    finally:
        torch.set_num_threads(1)


def test_old_checkpoints_go_only_after_new_ones_are_whole(tmp_path, config, prompts):
    config = replace(config, checkpoint_every=1)
    list(train_rlhf_loop(config, tiny_models(), prompts=prompts, save_dir=tmp_path))
    names = [path.name for path in list_checkpoints(tmp_path)]
    assert names == ["iteration_00003", "iteration_00004"]
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_bytes_and_numbers(normalizing, prompts, threads):
    """With as many threads; one and two add up in another order. What others draw changes nothing."""

    def run() -> tuple:
        torch.rand(3), torch.manual_seed(int(torch.randint(9, (1,))))
        state = start_run(normalizing, tiny_models(), prompts=prompts)
        return strip(train_rlhf_loop(state=state)), trained(state.models)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert run() == run()
    finally:
        torch.set_num_threads(before)


def test_evaluation_in_half_precision_compares_like_with_like(config, prompts):
    """The KL is between two full forwards under autocast: with the sampler's log-probs the reference
    would be away from itself.
    """
    half = replace(config, mixed_precision="bf16")
    exact, rough = (start_run(c, tiny_models(), prompts=prompts) for c in (config, half))
    itself, _ = evaluate(rough.models.reference, rough, count=24)
    assert float(itself["kl"].abs().max()) < 1e-4
    actor = freeze(moved(exact.models.actor))  # frozen, it samples in float32 in both
    right, texts = evaluate(actor, exact, count=24)
    found, again = evaluate(actor, rough, count=24)
    assert again == texts and torch.equal(found["score"], right["score"])
    assert found["kl"].dtype == torch.float32 and not torch.equal(found["kl"], right["kl"])
    gap = float((found["kl"] - right["kl"]).abs().max())
    assert gap < 0.1 and right["kl"].mean() > 10 * abs(found["kl"].mean() - right["kl"].mean())
    reference = rough.models.reference
    sampled = sample_responses(reference, rough.models.tokenizer, prompts * 6, half)
    gap = sampled.logprobs - full_logprobs(reference, rough, sampled)
    assert float(gap.sum(dim=1).abs().max()) > 1e-3  # the sampler's own would not do


def test_computing_by_length_changes_no_number(config, models, prompts):
    state = start_run(config, models, prompts=prompts)
    responses = generate_responses(state, prompts * 5)
    whole = forward_logprobs(models.actor, *responses.tokens())
    for size in (1, 3, 64):
        parts = responses.in_parts(lambda *tokens: forward_logprobs(models.actor, *tokens), size)
        torch.testing.assert_close(parts, whole, atol=1e-5, rtol=1e-5)


RLOO = {"method": "rloo", "responses_per_prompt": 4, "kl_placement": "loss"}
TEXTS = "(3) The reward function scores each text"


@pytest.mark.parametrize(
    ("reward", "changes", "says", "never"),
    [
        (length_reward, {}, [TEXTS, "      advantages, whitened"], ["reward model"]),
        (
            length_reward,
            RLOO,
            ["without a critic (rloo)", "the KL is in the loss"],
            ["values ", "GAE", "critic loss", "−β·KL"],
        ),
    ],
)
def test_the_trace_says_what_the_step_does(config, prompts, reward, changes, says, never):
    config, models, lines = replace(config, **changes), tiny_models(reward=reward), []
    models = replace(models, critic=models.critic if config.method == "ppo" else None)
    iterate(start_run(config, models, prompts=prompts), Trace(models, config, lines.append))
    said = "\n".join(lines)
    assert all(words in said for words in says) and not any(words in said for words in never)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"kl_target": 0.01, "kl_horizon": 20.0}, 3),
        ({"kl_placement": "loss"}, 2),  # there the KL is in no reward
        ({"whiten_rewards": True}, 1),
    ],
)
def test_the_trace_closes_with_a_sum_that_adds_up(config, models, prompts, changes, shown):
    """Σ rewards = score − β·KL, with the β of this step."""
    state = start_run(replace(config, kl_coef=0.5, **changes), models, prompts=prompts)
    moved(state.models.actor)
    iterate(state)  # after which an adaptive β is another
    beta, seen, lines = state.kl_coef, {}, []
    assert (beta != 0.5) == ("kl_target" in changes)
    trace = Trace(state.models, state.config, lines.append)
    iterate(state, lambda step, **tensors: seen.update(tensors) or trace(step, **tensors))
    rollout = seen["rollout"]
    mask = rollout.response_mask
    paid = beta * float((rollout.logprobs - rollout.ref_logprobs)[mask].sum()) / len(rollout)
    score, total = float(rollout.scores.mean()), float(rollout.rewards.sum()) / len(rollout)
    kl, reward = (re.findall(r"[+-]\d+\.\d{3}", line) for line in lines[-2:])
    assert abs(paid) > 0.01 and float(kl[1]) == pytest.approx(paid, abs=6e-4)
    assert [float(x) for x in reward] == pytest.approx([total, score, paid][:shown], abs=6e-4)
    if shown > 1:
        assert total == pytest.approx(score - (shown == 3) * paid, abs=1e-4)
    assert f"{int(mask.sum())} tokens" in lines[-3]


def test_the_trace_shows_what_a_user_asked_and_what_was_answered(config, models):
    talk = [{"role": "user", "content": "why is it?"}]
    prompt, lines = Prompt("system " * 20 + "user why is it? assistant", {"messages": talk}), []
    trace = Trace(models, config, lines.append)
    trace(1, prompts=[prompt])
    assert lines[-1].endswith("'why is it?'")
    responses = sample_responses(models.actor, models.tokenizer, [prompt], config)
    responses.texts = [SampledText(f"{prompt} because it was", prompt, " because it was")]
    trace(2, responses=responses)
    assert lines[-1].endswith("user why is it? assistant because it was'")
