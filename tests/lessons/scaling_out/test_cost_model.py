"""The cost model against torch's own FLOP counter on real models, and against what must hold."""

import pytest
import torch
from conftest import tiny_models
from torch.utils.flop_counter import FlopCounterMode

from helpers.lessons.scaling_out.cost_model import (
    H100,
    Device,
    Load,
    Size,
    Work,
    engine_choices,
    forward,
    memory,
    phases,
    update,
    whole,
    writing,
)
from helpers.models import count_parameters
from helpers.rollouts import forward_values, response_logits
from helpers.sampling import generate
from helpers.world import reviews

LOAD = Load(responses=8, prompt=5, response=12)
SEVEN = Size(6_500_000_000, 32, 4096, 32_000)


def counted_flops(compute) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        compute()
    return counter.get_total_flops()


@pytest.fixture(scope="module")
def models():
    return tiny_models()


@pytest.fixture(scope="module")
def tokens():
    vocabulary = len(reviews.VOCABULARY)
    queries = torch.randint(3, vocabulary, (8, 5))
    responses = torch.randint(3, vocabulary, (8, 13))  # one more: its last token is never read
    return queries, torch.ones_like(queries).bool(), responses, torch.ones_like(responses).bool()


def test_a_forward_costs_what_torch_counts(models, tokens):
    models.actor.set_attn_implementation("eager")  # whose products the counter sees one by one
    counted = counted_flops(lambda: response_logits(models.actor, *tokens))
    size = Size.of(models.actor)
    work = forward(size, 8 * 17, 17, logits=8 * 13)
    assert work.flops == pytest.approx(counted, rel=0.02)
    assert counted_flops(lambda: forward_values(models.critic, *tokens)) < counted


def test_parameters_are_those_of_the_model(models):
    size = Size.of(models.actor)
    positions = models.actor.transformer.wpe.weight.numel()
    assert size.parameters == count_parameters(models.actor) - positions


def test_large_models_cost_two_flops_a_parameter_and_token_and_six_to_train():
    work = forward(SEVEN, 1000, 100)
    assert work.flops == pytest.approx(2 * 6.5e9 * 1000, rel=0.01)
    steps = update([SEVEN], Load(responses=8, prompt=100, response=100, epochs=1))
    assert steps.flops == pytest.approx(6 * SEVEN.matrices * 1600, rel=0.05)


def test_writing_costs_the_arithmetic_of_one_forward_but_reads_the_weights_for_every_token():
    size = Size(10**9, 24, 2048, 1000)
    work, once = writing(size, LOAD), whole(size, LOAD)
    assert work.flops == pytest.approx(once.flops, rel=0.1)
    assert work.calls == 12 and work.bytes > 12 * 2 * size.parameters
    assert once.bytes == 2 * size.parameters


def test_writing_costs_what_torch_counts_until_the_longest_response_ends(models, tokens):
    """Rows that have ended are computed with the others, so the mean length says too little."""
    models.actor.set_attn_implementation("eager")
    calls, found = [], []
    hook = models.actor.register_forward_pre_hook(lambda *given: calls.append(1))
    stops = list(range(1, 30))  # so many that some rows end early
    generator = torch.Generator().manual_seed(2)
    asked = (*tokens[:2], 20, stops, 0, 1.0, generator)
    counted = counted_flops(lambda: found.extend(generate(models.actor, *asked)))
    hook.remove()
    lengths = found[1].sum(dim=1)
    mean, longest = int(lengths.float().mean()), int(lengths.max())
    assert longest > 1.5 * mean
    size = Size.of(models.actor)
    work = writing(size, Load(responses=8, prompt=5, response=mean, longest=longest))
    assert work.flops == pytest.approx(counted, rel=0.05) and work.calls == len(calls) == longest
    assert writing(size, Load(responses=8, prompt=5, response=mean)).flops < 0.75 * counted
    assert whole(size, Load(8, 5, mean, longest=longest)) == whole(size, Load(8, 5, mean))


def test_twice_the_gpus_halve_the_arithmetic_and_not_the_reading():
    one, two = (phases(SEVEN, SEVEN, SEVEN, LOAD, gpus) for gpus in (1, 2))
    for name in one:
        assert two[name].flops == pytest.approx(one[name].flops / 2)
    assert two["write"].bytes > 0.9 * one["write"].bytes
    assert one["update"].link == 0 and two["update"].link > 0


def test_fetching_weights_for_every_token_costs_a_response_length_of_them():
    work = writing(SEVEN, LOAD, sharded_over=4)
    assert work.link == pytest.approx(12 * 0.75 * 2 * SEVEN.parameters)


def test_work_adds_and_scales_and_takes_its_slower_half():
    work = Work(4.0, 8.0, 2.0, 1.0) + Work(flops=4.0) * 2
    assert (work.flops, work.bytes, work.link, work.calls) == (12.0, 8.0, 2.0, 1.0)
    device = Device(flops=4.0, bandwidth=1.0, link=2.0, wait=0.5)
    assert device.seconds(work) == 8.0 + 1.0 + 0.5
    assert Device(flops=1.0).seconds(work) == 12.0


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


@pytest.mark.parametrize("gpus", [8, 64])
def test_an_asynchronous_iteration_takes_as_long_as_its_slower_side_at_the_best_split(gpus):
    load = Load(responses=512, prompt=256, response=1024)
    found = engine_choices(SEVEN, load, gpus, H100)
    sync = H100.seconds(Work(link=2.0 * SEVEN.parameters))
    splits = {}
    for writers in range(1, gpus):
        write = phases(SEVEN, SEVEN, SEVEN, load, writers)["write"]
        rest = phases(SEVEN, SEVEN, SEVEN, load, gpus - writers)
        train = sum(H100.seconds(work) for name, work in rest.items() if name != "write")
        splits[writers] = max(H100.seconds(write) + sync, train)
    found_async = next(row for name, row in found.items() if name.startswith("async"))
    assert sum(found_async.values()) == pytest.approx(min(splits.values()), rel=0.01)
    assert sum(found["engine"].values()) < sum(found["sharded"].values())


def test_writing_does_not_get_faster_for_ever():
    """T tokens one after the other: with more GPUs than work, only reading the weights is left."""
    load = Load(responses=512, prompt=256, response=1024)
    few, many = (engine_choices(SEVEN, load, gpus, H100)["engine"] for gpus in (8, 256))
    floor = 1024 * 2 * SEVEN.parameters / H100.bandwidth
    assert many["write"] == pytest.approx(floor, rel=0.1)
    assert many["update"] < few["update"] / 16 and many["write"] > few["write"] / 8


def test_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match="responses: got 8, wants at least one for each of 9 GPUs"):
        LOAD.split(9)
    assert LOAD.split(3).responses == 3
    with pytest.raises(ValueError, match="gpus: got 1, wants at least two"):
        engine_choices(SEVEN, LOAD, 1, H100)
    with pytest.raises(ValueError, match="response: got 0"):
        Load(responses=1, prompt=1, response=0)
    with pytest.raises(ValueError, match="longest: got 3"):
        Load(responses=1, prompt=1, response=4, longest=3)
    with pytest.raises(ValueError, match="flops"):
        Device(flops=0.0)
