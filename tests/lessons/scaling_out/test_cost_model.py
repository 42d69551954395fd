"""The cost model against torch's own FLOP counter on real models, and against what must hold."""

import pytest
import torch
from conftest import tiny_models
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from helpers.lessons.scaling_out.cost_model import (
    H100,
    Device,
    Load,
    Size,
    Work,
    engine_choices,
    forward,
    generation,
    memory,
    phases,
    update,
    whole,
)
from helpers.rollouts import forward_values, response_logits
from helpers.sampling import generate
from helpers.world import reviews

LOAD = Load(responses=8, prompt=5, response=12)
SEVEN = Size(6_500_000_000, 32, 4096, 32_000)


def size_of(model: nn.Module) -> Size:
    config = model.config
    embedded = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    counted = sum(p.numel() for p in model.parameters() if id(p) not in embedded)
    return Size(counted, config.num_hidden_layers, config.hidden_size, config.vocab_size)


def counted_flops(compute) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        compute()
    return counter.get_total_flops()


@pytest.fixture(scope="module")
def models():
    found = tiny_models()
    found.actor.set_attn_implementation("eager")  # whose products the counter sees one by one
    return found


@pytest.fixture(scope="module")
def tokens():
    vocabulary = len(reviews.VOCABULARY)
    queries = torch.randint(3, vocabulary, (8, 5))
    responses = torch.randint(3, vocabulary, (8, 13))  # one more: its last token is never read
    return queries, torch.ones_like(queries).bool(), responses, torch.ones_like(responses).bool()


def test_a_forward_costs_what_torch_counts(models, tokens):
    counted = counted_flops(lambda: response_logits(models.actor, *tokens))
    work = forward(size_of(models.actor), 8 * 17, 17, logits=8 * 13)
    assert work.flops == pytest.approx(counted, rel=0.02)
    assert counted_flops(lambda: forward_values(models.critic, *tokens)) < counted


def test_generation_costs_what_torch_counts(models, tokens):
    asked = (*tokens[:2], 20, -1, 0)  # no token stops a row
    counted = counted_flops(lambda: generate(models.actor, *asked))
    work = generation(size_of(models.actor), Load(responses=8, prompt=5, response=20))
    assert work.flops == pytest.approx(counted, rel=0.05)


def test_large_models_cost_six_flops_a_parameter_and_token_to_train():
    steps = update([SEVEN], Load(responses=8, prompt=100, response=100, epochs=1))
    assert steps.flops == pytest.approx(6 * SEVEN.matrices * 1600, rel=0.05)


def test_generation_costs_the_arithmetic_of_one_forward_but_reads_the_weights_for_every_token():
    size = Size(10**9, 24, 2048, 1000)
    work, once = generation(size, LOAD), whole(size, LOAD)
    assert work.flops == pytest.approx(once.flops, rel=0.1)
    assert once.bytes == 2 * size.parameters and work.bytes > 12 * once.bytes
    fetched = generation(SEVEN, LOAD, sharded_over=4).link
    assert fetched == pytest.approx(12 * 0.75 * 2 * SEVEN.parameters)


def test_twice_the_gpus_halve_the_arithmetic_and_not_the_reading():
    one, two = (phases(SEVEN, LOAD, gpus) for gpus in (1, 2))
    for name in one:
        assert two[name].flops == pytest.approx(one[name].flops / 2)
    assert two["generate"].bytes > 0.9 * one["generate"].bytes
    assert one["update"].link == 0 and two["update"].link > 0
    assert LOAD.split(3).responses == 3  # of 8: the most that one has


def test_work_adds_and_scales_and_takes_its_slower_half():
    work = Work(4.0, 8.0, 2.0) + Work(flops=4.0) * 2
    assert (work.flops, work.bytes, work.link) == (12.0, 8.0, 2.0)
    assert Device(flops=4.0, bandwidth=1.0, link=2.0).seconds(work) == 8.0 + 1.0
    assert Device(flops=1.0, bandwidth=1.0, link=2.0).seconds(work) == 12.0 + 1.0


def test_a_trained_parameter_takes_the_bytes_that_mixed_precision_holds():
    """Weight and gradient in bfloat16; a float32 copy of the weight, which Adam moves, and its moments."""
    weight = torch.zeros(1000, dtype=torch.bfloat16, requires_grad=True)
    weight.sum().backward()
    copy = weight.detach().float()
    copy.grad = weight.grad.float()
    adam = torch.optim.Adam([copy])
    adam.step()
    held = [weight, weight.grad, copy, adam.state[copy]["exp_avg"], adam.state[copy]["exp_avg_sq"]]
    one = Size(1000, 1, 1)
    assert memory([one], []) == sum(tensor.nbytes for tensor in held)
    assert memory([], [one]) == weight.nbytes
    assert memory([SEVEN, SEVEN], [SEVEN, SEVEN], 8) == pytest.approx(36 * SEVEN.parameters / 8)


def test_generation_does_not_get_faster_for_ever():
    """T tokens one after the other: with more GPUs than work, only reading the weights is left."""
    load = Load(responses=512, prompt=256, response=1024)
    few, many = (engine_choices(SEVEN, load, gpus, H100) for gpus in (8, 256))
    floor = 1024 * 2 * SEVEN.parameters / H100.bandwidth
    assert many["engine"]["generate"] == pytest.approx(floor, rel=0.1)
    assert many["engine"]["update"] < few["engine"]["update"] / 16
    for found in (few, many):
        sharded, engine, overlapped = (sum(row.values()) for row in found.values())
        assert engine < sharded and overlapped < 1.1 * engine
    assert overlapped < 0.8 * engine  # with many GPUs
