"""Two real processes (gloo, on the CPU), spawned once, make the step that one makes; two old bugs do not."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from conftest import PROMPTS, length_reward, moved, strip, tiny_models, watched

from helpers import ppo, steps, whitening
from helpers.checkpoints import list_checkpoints, load_checkpoint
from helpers.commands.distributed import main
from helpers.config import RLHFConfig
from helpers.loop import train_rlhf_loop
from helpers.models import fingerprint
from helpers.sampling import Responses
from helpers.scale.distributed import launch, train_together
from helpers.scale.lora import lora_models
from helpers.state import in_step, start_run
from helpers.steps import draw_prompts, generate_responses
from helpers.tools.files import ROOT
from helpers.tools.parallel import gather, rank, share, sum_gradients, world_size
from helpers.world.small_models import make_encoder

HAS_PEFT = find_spec("peft") is not None
LORA = {"micro_batch_size": 2, "learning_rate": 1e-2}
BASE = {"iterations": 4, "batch_size": 12, "response_length": 16, "minibatch_size": 5}
GRPO = {"method": "grpo", "responses_per_prompt": 3}
CASES = {  # minibatches of 5 of 12 rows: uneven over two processes, the last one of 2 rows
    "plain": {},
    "micro-batches": {"micro_batch_size": 2},
    "rewards whitened": {"whiten_rewards": True, "micro_batch_size": 3},
    "KL in the loss": {"kl_placement": "loss", "kl_loss": "k2", "entropy_coef": 0.01},
    "one row a minibatch": {"minibatch_size": 1, "num_ppo_epochs": 1},
    "beta adapts": {"kl_target": 0.1},
    "rloo": {"method": "rloo", "responses_per_prompt": 2, "micro_batch_size": 2},
    "grpo, by response": GRPO | {"loss_aggregation": "response", "skip_equal_groups": True},
} | ({"lora": LORA} if HAS_PEFT else {})
KINDS = ["plain", "lora"] if HAS_PEFT else ["plain"]


def begin(changes: dict, **given):
    """A run of tiny models whose actor has left its reference, so that there is some KL."""
    models = tiny_models()
    moved(models.actor)
    config = RLHFConfig(**(BASE | changes), normalize_scores=False)
    if config.method != "ppo":
        models = dataclasses.replace(models, critic=None)
    return start_run(config, **{"models": models, "prompts": PROMPTS} | given)


def part_of(responses: Responses) -> Responses:
    """This process's rows of a recorded rollout, cut to their own longest response."""
    rows = share(list(range(len(responses.texts))))
    length = int(responses.response_mask[rows].sum(dim=1).max())
    cut = ("response_tensors", "response_mask", "logprobs")
    picked = {name: getattr(responses, name)[rows, :length] for name in cut}
    picked |= {name: getattr(responses, name)[rows] for name in ("query_tensors", "query_mask")}
    return dataclasses.replace(responses, **picked, texts=[responses.texts[i] for i in rows])


def recorded() -> Responses:
    """One global rollout; the first rows are made long and the others short, as the worst case."""
    state = begin({})
    responses = generate_responses(state, draw_prompts(state))
    rows, width = responses.response_mask.shape
    lengths = torch.linspace(width, width // 4, rows).long()
    counted = torch.arange(width) < lengths[:, None]
    tokens = torch.where(counted, responses.response_tensors, state.models.tokenizer.pad_token_id)
    logprobs = torch.where(counted, responses.logprobs, 0.0)
    assert lengths.max() > 2 * lengths.min()
    cut = {"response_mask": counted, "response_tensors": tokens, "logprobs": logprobs}
    return dataclasses.replace(responses, **cut)


def begin_lora(changes: dict, moved: bool = True):
    """The same actor, frozen, with an adapter that has left 0."""
    plain = begin({}).models
    models = lora_models(plain.actor, plain.tokenizer, length_reward, rank=2)
    generator = torch.Generator().manual_seed(6)
    for name, parameter in models.actor.named_parameters():
        if moved and "lora_B" in name:
            parameter.data.normal_(0.0, 0.02, generator=generator)
    return begin(changes, models=models)


def trained(state) -> torch.Tensor:
    """All weights that the optimizer moves: under LoRA adapters and the value head."""
    groups = state.optimizer.param_groups
    return torch.cat([p.detach().flatten() for group in groups for p in group["params"]])


def one_case(name: str, responses: Responses) -> dict:
    """One iteration of a case, and the weights before it."""
    start = begin_lora if name == "lora" else begin
    return one_iteration(CASES[name], responses, start) | {"before": trained(start(CASES[name]))}


def one_iteration(changes: dict, responses: Responses, begin: Callable = begin) -> dict:
    """Steps 3 to 7 on the recorded rollout: trained weights, and the record."""
    state = begin(changes)
    with patch.object(steps, "generate_responses", lambda state, prompts: part_of(responses)):
        record, seen = watched(state)
    return {"weights": trained(state), "record": record, "advantages": seen["advantages"]}


def equal_groups_skipped(responses: Responses) -> dict:
    """One iteration in which one group teaches: its pair is longer and shorter than 12 tokens."""

    def long_ones(state, written) -> torch.Tensor:
        return (written.response_mask.sum(dim=1) > 12).float()

    with patch.object(steps, "score_responses", long_ones):
        return one_iteration(CASES["rloo"] | {"skip_equal_groups": True}, responses)


def mean_gradients(parameters: list) -> None:
    """The bug: mean over this process's own tokens, then the mean over processes."""
    sum_gradients(parameters)
    for parameter in parameters:
        parameter.grad /= world_size()


def every_case(responses: Responses, folder: Path) -> None:
    """What the two processes do, and each writes down."""
    torch.set_num_threads(1)
    found = {name: one_case(name, responses) for name in CASES}
    bugs = patch.object(ppo, "sum_gradients", mean_gradients), patch.object(ppo, "total", torch.sum)
    with bugs[0], bugs[1]:
        found["averaging"] = one_iteration({}, responses)
    with patch.object(whitening, "gather", lambda x: x):  # statistics of this process's own part
        found["whitening alone"] = one_iteration({}, responses)
    found["equal groups"] = equal_groups_skipped(responses)
    found["loop"] = whole_loop(folder)
    found |= {f"{kind} resumed": interrupted(folder / kind, kind) for kind in KINDS}
    found["half precision"] = half_precision_gaps()
    found["unlike"] = gather(torch.arange(3.0 + rank()).expand(2 + rank(), -1))
    torch.save(found, folder / f"rank_{rank()}.pt")


def whole_loop(folder: Path) -> dict:
    """Two iterations from prompts to update, each process writing for itself."""
    texts = []
    state = begin({"iterations": 2}, measures={"letters": lambda t: [len(x) for x in t]})

    def keep(step, **tensors):
        texts.extend(map(str, tensors["responses"].texts) if step == 2 else [])

    records = list(train_rlhf_loop(state=state, observe=keep, save_dir=folder / "run"))
    stop = state.models.tokenizer.eos_token_id
    return {"texts": texts, "records": records, "in_step": in_step(state.models), "stop": stop}


def interrupted(folder: Path, kind: str) -> dict:
    """Four iterations at once, and two, then two more of what was loaded from the disk."""
    start = begin if kind == "plain" else partial(begin_lora, moved=False)
    changes = {"checkpoint_every": 2, "learning_rate": 1e-2}
    whole, first = start(changes), start(changes)
    before = fingerprint(whole.models.reference)
    list(train_rlhf_loop(state=whole))
    loop = train_rlhf_loop(state=first, save_dir=folder)
    next(loop), next(loop)
    loop.close()
    second = load_checkpoint(folder, models=start({}).models)  # the reference of the first
    numbers = second.generators["samples"].get_state()
    list(train_rlhf_loop(state=second, save_dir=folder))
    return {
        "records": [whole.history, second.history],
        "weights": [trained(whole), trained(second)],
        "in_step": in_step(whole.models),
        "reference": [before, fingerprint(whole.models.reference)],
        "random state": torch.cat([numbers, second.generators["samples"].get_state()]),
    }


def half_precision_gaps() -> tuple[float, float]:
    """Between cached decoding and a full forward: of this process's own responses, and the recorded one."""
    record, seen = watched(begin({"mixed_precision": "bf16"}))
    return seen["responses"].logprob_gap, record["logprob_gap"]


@pytest.fixture(scope="module")
def rollout() -> Responses:
    return recorded()


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def found(saved, rollout) -> list[dict]:
    """What each of the two processes found."""
    launch(every_case, 2, rollout, saved)
    assert [path.name for path in list_checkpoints(saved / "run")] == ["iteration_00002"]
    return [torch.load(saved / f"rank_{number}.pt", weights_only=True) for number in (0, 1)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_make_the_update_and_the_record_of_one(found, rollout, name):
    alone = one_case(name, rollout)
    assert (alone["weights"] - alone["before"]).abs().max() > 1e-3  # it does move
    for case in (found[0][name], found[1][name]):
        assert (case["weights"] - alone["weights"]).abs().max() <= 1e-5
        assert case["record"].keys() == alone["record"].keys()
        for key in set(alone["record"]) - {"seconds", "first_ratio_error"}:
            expected = pytest.approx(alone["record"][key], abs=2e-5, rel=1e-4)
            assert case["record"][key] == expected, key


def test_a_process_whose_groups_are_all_equal_makes_the_update_of_the_others(found, rollout):
    alone = equal_groups_skipped(rollout)
    rows = alone["advantages"].ne(0).any(dim=1)
    assert rows.any() and not rows[6:].any()  # the second process has none that teaches
    for number in (0, 1):
        apart = (found[number]["equal groups"]["weights"] - alone["weights"]).abs().max()
        assert apart <= 1e-5, float(apart)


@pytest.mark.parametrize("bug", ["averaging", "whitening alone"])
def test_guard_a_process_that_minds_its_own_part_makes_another_update(found, rollout, bug):
    """Long responses here, short ones there: neither the mean of two means nor two whitenings is the one."""
    alone = one_iteration({}, rollout)
    assert (found[0][bug]["weights"] - alone["weights"]).abs().max() > 1e-4


def test_both_processes_stay_the_same_and_write_different_responses(found):
    first, second = (rank["loop"] for rank in found)
    assert first["in_step"] and second["in_step"]
    assert set(first["texts"]) != set(second["texts"]) and len(first["texts"]) == 12
    assert strip(first["records"]) == strip(second["records"])
    assert all(record["first_ratio_error"] <= 1e-4 for record in first["records"])


def test_measures_and_scores_are_means_over_all_responses(found):
    texts = found[0]["loop"]["texts"][:6] + found[1]["loop"]["texts"][:6]
    record = found[0]["loop"]["records"][0]
    assert record["letters"] == pytest.approx(sum(map(len, texts)) / 12)
    assert record["score"] == pytest.approx(float(length_reward(texts).mean()), abs=1e-5)
    assert record["score_std"] == pytest.approx(float(length_reward(texts).std()), abs=1e-5)


def test_the_gap_of_half_precision_is_the_largest_of_all_responses(found):
    (here, first), (there, second) = (rank_found["half precision"] for rank_found in found)
    assert here != there and first == second == pytest.approx(max(here, there))


@pytest.mark.parametrize("kind", KINDS)
def test_two_iterations_and_two_resumed_are_four(found, saved, kind):
    """Every record and every weight to the last bit; each process has its own random numbers back."""
    one, other = (rank_found[f"{kind} resumed"] for rank_found in found)
    for case in (one, other):
        assert case["in_step"] and case["reference"][0] == case["reference"][1]
        assert torch.equal(*case["weights"]) and torch.equal(case["weights"][0], one["weights"][0])
        assert [record["iteration"] for record in case["records"][1]] == [1, 2, 3, 4]
        assert strip(case["records"][0]) == strip(case["records"][1])
        assert case["records"][0][0]["first_ratio_error"] <= 1e-4
        first, *_, last = case["records"][0]
        assert last["kl"] != 0.0 and (abs(first["kl"]) <= 1e-4) == (kind == "lora")
    assert not torch.equal(one["random state"], other["random state"])
    weights = {file.name for file in (saved / kind).rglob("*.safetensors")}
    assert ("adapter_model.safetensors" in weights) == (kind == "lora")
    assert ("model.safetensors" in weights) == (kind == "plain")


def test_one_process_does_not_resume_the_run_of_two(found, saved):
    with pytest.raises(ValueError, match="processes: got 1, wants 2 as saved"):
        load_checkpoint(saved / "plain", models=begin({}).models)


def test_tensors_of_unlike_shapes_are_gathered_with_zeros_around_them(found):
    narrow, wide = torch.arange(3.0).expand(2, 3), torch.arange(4.0).expand(3, 4)
    both = torch.cat([torch.nn.functional.pad(narrow, (0, 1)), wide])
    assert all(torch.equal(of_rank["unlike"], both) for of_rank in found)


def test_a_batch_that_does_not_divide_is_refused_at_once(capsys):
    assert main(["--batch-size", "63"]) == 2
    said = capsys.readouterr().err
    assert said == "error: batch_size: got 63, wants a multiple of 2 processes.\n"


def test_what_two_processes_refuse_is_one_sentence(tmp_path, capsys):
    """Said by the command, as by `train`, and not as the traceback of one of its processes."""
    tokenizer = tiny_models().tokenizer
    make_encoder(tokenizer).save_pretrained(tmp_path)  # without a head
    tokenizer.save_pretrained(tmp_path)
    capsys.readouterr()
    assert main(["--reward-model", str(tmp_path)]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("W")]
    assert len(said) == 1 and said[0].startswith(f"error: reward_model: got '{tmp_path}', ")


def test_an_update_that_wrecks_the_policy_is_refused_and_not_saved(tmp_path):
    state = begin({"learning_rate": 3.0, "iterations": 1})
    with pytest.raises(ValueError, match=r"approx_kl: got .* in update 1, .*--force to go on"):
        train_together(lambda: (state, None), tmp_path)
    assert not list_checkpoints(tmp_path)
    again = begin({"learning_rate": 3.0, "iterations": 1})
    train_together(lambda: (again, None), tmp_path, force=True)
    assert len(list_checkpoints(tmp_path)) == 1


@pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is an optional extra")
def test_the_notebook_launcher_starts_two_processes(tmp_path):
    """From a script, as from a cell; a kernel of its own, since it forks."""
    flags = ["--iterations", "1", "--batch-size", "8", "--save", str(tmp_path)]
    script = "from accelerate import notebook_launcher as start; "
    script += "from helpers.commands.distributed import main; "
    script += f"start(main, ({flags!r},), num_processes=2)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2 processes, 4 responses each" in done.stdout
    assert "in all processes: True" in done.stdout
