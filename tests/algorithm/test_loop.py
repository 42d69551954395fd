"""The loop: its invariants at every iteration, exact resumption, refusals, the command line."""

import csv
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from conftest import length_reward, tiny_models

from helpers import steps
from helpers.__main__ import main
from helpers.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from helpers.loop import train_rlhf_loop
from helpers.models import fingerprint, freeze
from helpers.prompts import Prompt
from helpers.reward_model import RewardModel
from helpers.rewards import RewardSum
from helpers.rollouts import forward_logprobs
from helpers.sampling import SampledText
from helpers.state import start_run
from helpers.steps import draw_prompts, estimate_advantages, evaluate, iterate, write_responses
from helpers.tools.files import ROOT, FileProblem
from helpers.trace import Trace, asked, end_and_answer
from helpers.whitening import masked_mean
from helpers.world.small_models import make_encoder


def test_every_iteration_starts_at_ratio_one_and_the_first_at_kl_zero(config, models, prompts):
    history = list(train_rlhf_loop(config, models, prompts=prompts))
    assert [record["iteration"] for record in history] == [1, 2, 3, 4]
    assert all(record["first_ratio_error"] <= 1e-4 for record in history)
    assert abs(history[0]["kl"]) <= 1e-4
    assert history[-1]["kl"] != 0.0


def test_the_reference_is_not_trained_and_the_actor_is(config, models, prompts):
    before = fingerprint(models.reference), fingerprint(models.actor), fingerprint(models.critic)
    list(train_rlhf_loop(config, models, prompts=prompts))
    assert fingerprint(models.reference) == before[0]
    assert fingerprint(models.actor) != before[1]
    assert fingerprint(models.critic) != before[2]


def test_a_frozen_reward_model_is_not_trained(config, prompts):
    models = tiny_models()
    models.reward = RewardModel(make_encoder(models.tokenizer, 1, 32), models.tokenizer)
    before = fingerprint(models.reward)
    list(train_rlhf_loop(config, models, prompts=prompts))
    assert fingerprint(models.reward) == before


def test_returns_are_formed_before_whitening(config, models, prompts):
    """Whitened advantages have mean 0; returns are rewards-to-go, in reward units."""
    state = start_run(replace(config, lam=1.0, batch_size=16), models, prompts=prompts)
    responses = write_responses(state, draw_prompts(state))
    rewards = torch.where(responses.response_mask, 3.0, 0.0)
    values, advantages, returns = estimate_advantages(state, responses, rewards)
    left = responses.response_mask.flip(1).cumsum(1).flip(1) * responses.response_mask
    assert torch.allclose(returns, 3.0 * left, atol=1e-5)  # λ = γ = 1: plain sums of rewards
    assert abs(float(masked_mean(advantages, responses.response_mask))) < 1e-5


@pytest.mark.slow
def test_it_learns_a_reward_function(models, prompts):
    config = replace_tiny(iterations=25, batch_size=32, learning_rate=3e-3, kl_coef=0.01)
    history = list(train_rlhf_loop(config, models, prompts=prompts))
    assert history[-1]["score"] > history[0]["score"] + 0.5  # reference standard deviations


def test_an_interrupt_does_not_leave_gradients_switched_off(normalizing, prompts):
    def stop(step, **tensors):
        torch.set_grad_enabled(False)  # as an interrupt between no_grad's own lines would leave it
        raise KeyboardInterrupt

    state = start_run(normalizing, tiny_models(), prompts=prompts)
    with pytest.raises(KeyboardInterrupt):
        next(train_rlhf_loop(state=state, observe=stop))
    assert torch.is_grad_enabled()


def replace_tiny(**changes):
    from helpers.config import RLHFConfig

    return RLHFConfig(response_length=6, minibatch_size=16, critic_learning_rate=3e-3, **changes)


def test_same_seed_same_numbers(normalizing, prompts):
    runs = [list(train_rlhf_loop(normalizing, tiny_models(), prompts=prompts)) for _ in range(2)]
    strip = [[{k: v for k, v in r.items() if k != "seconds"} for r in run] for run in runs]
    assert strip[0] == strip[1]


@pytest.mark.parametrize("changes", [{}, {"kl_target": 2.0}, {"kl_placement": "loss"}])
def test_resumed_run_equals_an_uninterrupted_one(tmp_path, normalizing, prompts, changes):
    config = replace(normalizing, checkpoint_every=2, **changes)
    whole = start_run(config, tiny_models(), prompts=prompts)
    list(train_rlhf_loop(state=whole))
    half = train_rlhf_loop(config, tiny_models(), prompts=prompts, save_dir=tmp_path)
    next(half), next(half)
    half.close()
    resumed = load_checkpoint(tmp_path, models=tiny_models())
    assert resumed.iteration == 2
    list(train_rlhf_loop(state=resumed))
    for role in ("actor", "critic"):
        assert fingerprint(getattr(resumed.models, role)) == fingerprint(
            getattr(whole.models, role)
        )
    assert resumed.kl_coef == whole.kl_coef
    strip = [
        [{k: v for k, v in r.items() if k != "seconds"} for r in s.history]
        for s in (resumed, whole)
    ]
    assert strip[0] == strip[1]


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


def test_what_cannot_be_resumed_is_refused(tmp_path, saved, config, prompts):
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


def test_another_reference_is_refused(saved):
    with pytest.raises(FileProblem, match="another reference"):
        load_checkpoint(saved, models=tiny_models(seed=5))


@pytest.mark.parametrize("damage", ["cut", "altered", "gone"])
def test_a_damaged_checkpoint_is_named(saved, damage):
    file = list_checkpoints(saved)[-1] / "state.safetensors"
    contents = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        half = contents[: len(contents) // 2]
        file.write_bytes(half if damage == "cut" else half + b"x" + contents[len(half) + 1 :])
    with pytest.raises(FileProblem, match="state.safetensors"):
        load_checkpoint(saved, models=tiny_models())


def test_no_checkpoint_is_one_sentence(tmp_path):
    with pytest.raises(FileProblem, match="No checkpoint below"):
        load_checkpoint(tmp_path, models=tiny_models())


def test_old_checkpoints_go_only_after_new_ones_are_whole(tmp_path, config, prompts):
    config = replace(config, checkpoint_every=1)
    list(train_rlhf_loop(config, tiny_models(), prompts=prompts, save_dir=tmp_path))
    names = [path.name for path in list_checkpoints(tmp_path)]
    assert names == ["iteration_00003", "iteration_00004"]
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(
    ("reward", "says"),
    [
        (lambda texts: [float("nan")] * len(texts), "NaN"),
        (lambda texts: [1.0], "shape"),
    ],
)
@pytest.mark.parametrize("normalize", [True, False])
def test_a_bad_reward_function_is_refused(config, prompts, reward, says, normalize):
    config = replace(config, normalize_scores=normalize, batch_size=64)
    with pytest.raises(ValueError, match=says):
        list(train_rlhf_loop(config, tiny_models(reward=reward), prompts=prompts))


def test_equal_scores_train_without_nan(normalizing, prompts):
    models = tiny_models(reward=lambda texts: [1.0] * len(texts))
    history = list(train_rlhf_loop(normalizing, models, prompts=prompts))
    assert all(value == value for record in history for value in record.values())


def test_prompts_too_long_for_the_context_are_refused(config):
    with pytest.raises(ValueError, match="prompts"):
        start_run(config, tiny_models(), prompts=["the soup " * 40])


def test_half_precision_recomputes_the_old_logprobs_and_reports_the_gap(config, prompts):
    models = tiny_models()
    models.actor.to(torch.bfloat16), models.reference.to(torch.bfloat16)
    history = list(train_rlhf_loop(config, models, prompts=prompts))
    assert all(0.0 < record["logprob_gap"] < 0.5 for record in history)
    assert all(record["first_ratio_error"] < 0.05 for record in history)
    assert all(value == value for record in history for value in record.values())


def test_adaptive_beta_moves_and_is_recorded(config, models, prompts):
    config = replace(config, kl_target=0.001, learning_rate=1e-2)
    betas = [record["kl_coef"] for record in train_rlhf_loop(config, models, prompts=prompts)]
    assert len(set(betas)) > 1


def test_kl_goes_into_the_reward_or_into_the_loss_but_never_both(config, models, prompts):
    seen = {}

    def observe(step, **tensors):
        if step == 5:
            seen[config.kl_placement] = tensors["rewards"]

    for placement in ("reward", "loss"):
        config = replace(config, kl_placement=placement, kl_coef=5.0)
        state = start_run(config, tiny_models(), prompts=prompts)
        iterate(state), iterate(state, observe)
    nonzero = {name: int((rewards != 0).sum(dim=1).max()) for name, rewards in seen.items()}
    assert nonzero["loss"] == 1 and nonzero["reward"] > 1


# ---- the command line ----
def cli(*arguments, **extra):
    return subprocess.run(
        [sys.executable, "-m", "helpers", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        **extra,
    )


SMALL = ["--iterations", "2", "--batch-size", "8", "--response-length", "8"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--kl-coef", "-1"], "kl_coef"),
        (["--iterations", "0"], "iterations"),
        (["--batch-size", "-3"], "batch_size"),
        (["--response-length", "0"], "response_length"),
        (["--response-length", "500"], "prompts"),
        (["--actor", "data/nowhere"], "data/nowhere"),
        (["--reward-model", "./nowhere"], "nowhere"),
        (["--device", "abacus"], "device"),
        (["--resume", "nowhere"], "No checkpoint"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_bad_values_are_one_sentence_and_status_2(capsys, flags, says):
    assert main(["train", *flags]) == 2
    problem = capsys.readouterr().err.strip()
    assert says in problem and "\n" not in problem and "Traceback" not in problem


@pytest.mark.slow
def test_command_line_traces_trains_and_saves_and_resumes_no_other_run(tmp_path, capsys):
    few = ["--evaluation-samples", "8", "--normalizer-samples", "32"]
    assert main(["train", *SMALL, *few, "--save", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    places = [printed.index(f"({step})") for step in range(1, 8)]
    assert places == sorted(places)
    assert "update complete" in printed and "before" in printed
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["iteration"] for row in rows] == ["1", "2"]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert list_checkpoints(tmp_path)
    assert main(["train", "--resume", str(tmp_path), "--iterations", "1"]) == 2
    assert "iterations: got 1, wants at least 2" in capsys.readouterr().err
    longer = ["train", "--resume", str(tmp_path), "--iterations", "3", "--evaluation-samples", "8"]
    assert main(longer) == 0
    with (tmp_path / "metrics.csv").open() as file:
        assert [row["iteration"] for row in csv.DictReader(file)] == ["1", "2", "3"]


@pytest.mark.nightly  # test_one_page.py and commands/ start others by day
def test_the_module_is_a_command():
    done = cli("train", "--iterations", "0")
    assert done.returncode == 2 and done.stderr.startswith("error: iterations")


@pytest.mark.nightly
def test_the_trace_at_gpt2_s_size_prints_its_shapes():
    done = cli("trace", "--random-gpt2")
    assert done.returncode == 0, done.stderr
    for shape in ("(4, 64)", "(4, 128)", "(4, 128, 50257)"):
        assert shape in done.stdout
    assert "124.4 M parameters" in done.stdout and "peak memory" in done.stdout


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_gives_the_same_bytes(config, prompts, threads):
    """With as many threads; one and two add up in another order."""

    def trained() -> str:
        state = start_run(config, tiny_models(), prompts=prompts)
        list(train_rlhf_loop(state=state))
        return fingerprint(state.models.actor) + fingerprint(state.models.critic)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert trained() == trained()
    finally:
        torch.set_num_threads(before)


def moved(actor):
    """The actor a little away from its reference, so that there is some KL."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in actor.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=generator)
    return actor


def test_evaluation_in_half_precision_compares_like_with_like(config, prompts, monkeypatch):
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
    monkeypatch.setattr(steps, "full_logprobs", lambda policy, state, written: written.logprobs)
    wrong, _ = evaluate(rough.models.reference, rough, count=24)
    assert float(wrong["kl"].abs().max()) > 1e-3  # the guard


def test_length_reward_counts_commas():
    assert length_reward(["a, b"]).tolist() == pytest.approx([0.8])


def test_computing_by_length_changes_no_number(config, models, prompts):
    state = start_run(config, models, prompts=prompts)
    responses = write_responses(state, prompts * 5)
    whole = forward_logprobs(models.actor, *responses.tokens())
    for size in (1, 3, 64):
        parts = responses.in_parts(lambda *tokens: forward_logprobs(models.actor, *tokens), size)
        torch.testing.assert_close(parts, whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "name"),
    [({}, "advantages, whitened"), ({"whiten_advantages": False}, "advantages  ")],
)
def test_the_trace_says_whether_advantages_are_whitened(config, models, prompts, changes, name):
    config, lines = replace(config, **changes), []
    state = start_run(config, models, prompts=prompts)
    iterate(state, Trace(models, config, lines.append))
    (line,) = [line for line in lines if line.strip().startswith("advantages")]
    assert line.strip().startswith(name)


def traced(config, models, prompts) -> str:
    lines = []
    iterate(start_run(config, models, prompts=prompts), Trace(models, config, lines.append))
    return "\n".join(lines)


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


def test_the_trace_names_who_scores(config, prompts):
    def right(prompts, completions):
        return [1.0] * len(completions)

    both = RewardSum([right, length_reward])
    says = {length_reward: "reward function scores each text", right: "given its prompt"}
    for reward, what in (says | {both: "sum of 2 rewards"}).items():
        (line,) = re.findall(r"\(3\) .*", traced(config, tiny_models(reward=reward), prompts))
        assert what in line and "reward model" not in line


def test_the_trace_of_a_method_without_a_critic_shows_none(config, models, prompts):
    config = replace(
        config, method="rloo", responses_per_prompt=4, kl_placement="loss", kl_loss="k2"
    )
    said = traced(config, replace(models, critic=None), prompts)
    assert "values " not in said and "GAE" not in said and "critic loss" not in said
    assert "beside the others of 4 to its prompt (rloo)" in said and "actor alone" in said
    assert "−β·KL" not in said and "the KL is in the loss" in said


def test_the_trace_shows_what_a_user_asked_and_what_was_answered():
    template = "system " * 20
    talk = [{"role": "system", "content": template}, {"role": "user", "content": "why is it?"}]
    prompt = Prompt(f"{template}user why is it? assistant", {"messages": talk})
    text = SampledText(f"{prompt} because it was", prompt, " because it was")
    assert asked(prompt) == "why is it?"
    said = end_and_answer(text)
    assert "why is it? assistant because it was" in said and len(said) < 95
    assert end_and_answer(SampledText("it was good", "it was", " good")) == "it was good"
