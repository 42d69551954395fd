"""The same numbers on every device, every tensor on the right one: here the CPU, with `-m cuda` a GPU too."""

import copy
from dataclasses import replace

import pytest
import torch
from conftest import PROMPTS, SMALL, moved, tiny_models, watched
from strategies import flat

from helpers import steps
from helpers.config import RLHFConfig
from helpers.models import freeze, make_reference
from helpers.reward_model import RewardModel
from helpers.rollouts import RolloutBatch, Tokens, forward_logprobs
from helpers.sampling import Responses, sample_responses
from helpers.scale.memory import peak_bytes, reset_peak
from helpers.scale.pretrained import half_precision
from helpers.state import Models, start_run
from helpers.world.small_models import make_encoder

CONFIG = RLHFConfig(device="cpu", iterations=3, micro_batch_size=2, **SMALL)
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def four_models() -> Models:
    """Actor, critic, reference and a real reward model, all on the CPU."""
    models = tiny_models()
    with torch.no_grad():
        models.critic.value_head.weight.normal_(std=0.1)  # a critic that says something
    moved(models.actor)
    encoder = make_encoder(models.tokenizer, layers=1, width=32)
    models.reward = freeze(RewardModel(encoder, models.tokenizer))
    return models


def on(models: Models, device: torch.device) -> Models:
    """The same four models on a device, none shared with the ones given."""
    names = ("actor", "critic", "reward", "reference")
    parts = {name: copy.deepcopy(getattr(models, name)).to(device) for name in names}
    return Models(**parts, tokenizer=models.tokenizer)


def written_on(responses: Responses, device: torch.device) -> Responses:
    names = (*Tokens._fields, "logprobs")
    return replace(responses, **{name: getattr(responses, name).to(device) for name in names})


def run_on_fixed_tokens(models: Models, monkeypatch, recorded: list[Responses]) -> tuple:
    """Three iterations with given rollouts: records, rollouts and the state."""
    queue = [written_on(responses, models.device) for responses in recorded]
    monkeypatch.setattr(steps, "generate_responses", lambda *arguments: queue.pop(0))
    state = start_run(CONFIG, models, prompts=PROMPTS)
    records, seen = zip(*(watched(state) for _ in recorded), strict=True)
    return records, [tensors["rollout"] for tensors in seen], state


def recorded_rollouts(models: Models) -> list[Responses]:
    generator = torch.Generator().manual_seed(0)
    asked = [PROMPTS[i % len(PROMPTS)] for i in range(CONFIG.batch_size)]
    what = (models.actor, models.tokenizer, asked, CONFIG, generator)
    return [sample_responses(*what) for _ in range(3)]


def test_the_loop_on_fixed_tokens_gives_the_cpus_numbers(device, monkeypatch):
    models = four_models()
    there, recorded = on(models, device), recorded_rollouts(models)
    ours, our_rollouts, state = run_on_fixed_tokens(models, monkeypatch, recorded)
    theirs, their_rollouts, state_there = run_on_fixed_tokens(there, monkeypatch, recorded)
    for mine, other in zip(our_rollouts, their_rollouts, strict=True):
        for name in ("ref_logprobs", "values", "rewards", "advantages", "returns", "scores"):
            torch.testing.assert_close(getattr(other, name).cpu(), getattr(mine, name), **CLOSE)
    for mine, other in zip(ours, theirs, strict=True):
        for name in mine.keys() - {"seconds"}:
            assert other[name] == pytest.approx(mine[name], rel=1e-3, abs=1e-4), name
    for role, mine in state.models.trained().items():
        other = getattr(state_there.models, role)
        torch.testing.assert_close(flat(other).cpu(), flat(mine), rtol=1e-3, atol=1e-4)


def test_everything_is_on_its_device(device):
    there = on(four_models(), device)
    state = start_run(CONFIG, there, prompts=PROMPTS)
    rollout = watched(state)[1]["rollout"]
    assert state.generators["samples"].device.type == device.type
    assert {state.generators[name].device.type for name in ("prompts", "minibatches")} == {"cpu"}
    assert isinstance(rollout, RolloutBatch)
    assert {tensor.device.type for tensor in vars(rollout).values()} == {device.type}
    for moments in state.optimizer.state.values():
        assert moments["exp_avg"].device.type == device.type
    found, texts = steps.evaluate(there.actor, state, count=8)
    assert {values.device.type for values in found.values()} == {"cpu"} and len(texts) == 8


def test_a_seed_fixes_what_a_device_writes(device):
    models = on(four_models(), device)
    what = (models.actor, models.tokenizer, PROMPTS, CONFIG)
    seeds = [torch.Generator(device).manual_seed(5) for _ in range(2)]
    one, other = (sample_responses(*what, generator).texts for generator in seeds)
    assert one == other


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_costs_the_frozen_models_little(device, dtype):
    models = on(four_models(), device)
    responses = written_on(recorded_rollouts(four_models())[0], device)
    half = half_precision(make_reference(models.reference), dtype)
    with torch.no_grad():
        exact = forward_logprobs(models.reference, *responses.tokens())
        rough = forward_logprobs(half, *responses.tokens())
    assert rough.dtype == torch.float32  # the softmax is taken there
    assert 0 < (rough - exact).abs().max() < (0.01 if dtype == torch.float16 else 0.1)
    scores = models.reward.score_texts(responses.texts)
    half_precision(models.reward, dtype)
    assert models.reward.head.weight.dtype == torch.float32
    assert (models.reward.score_texts(responses.texts) - scores).abs().max() < 0.1


def test_the_peak_of_a_device_is_seen(device):
    reset_peak(device)
    before = peak_bytes(device)
    block = torch.ones(2**24, device=device)
    del block
    assert peak_bytes(device) - before >= 60 * 2**20
