"""LoRA: at first the reference itself; then only the adapter moves, and the reference stays for free."""

import sys

import pytest
import torch
from conftest import SMALL, length_reward, strip, tiny_lora, tiny_models
from safetensors.torch import load_file
from strategies import small_lm
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from helpers.checkpoints import load_checkpoint, save_checkpoint
from helpers.config import RLHFConfig
from helpers.models import fingerprint, load_actor, make_critic, trainable
from helpers.rollouts import forward_logprobs, forward_values
from helpers.sampling import sample_responses
from helpers.scale.export import merge_adapter
from helpers.scale.lora import add_lora, base_dtype
from helpers.scale.memory import adapter_parameters, estimate_memory
from helpers.scale.pretrained import make_models
from helpers.state import start_run
from helpers.steps import iterate

CONFIG = RLHFConfig(device="cpu", iterations=3, learning_rate=1e-2, **SMALL)
PROMPTS = ["we saw this film", "the soup", "i read"]


def test_frozen_weights_are_shared_with_the_critic_and_trained_ones_are_not():
    models = tiny_models()
    head, body = list(models.actor.transformer.h[0].parameters())[:2]
    for parameter in models.actor.parameters():
        parameter.requires_grad_(parameter is body)
    kept = {id(parameter) for parameter in make_critic(models.actor).parameters()}
    assert id(head) in kept and id(body) not in kept
    assert [id(p) for p in trainable(models.actor)] == [id(body)]


def test_without_peft_one_sentence_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match="pip install peft") as problem:
        add_lora(tiny_models().actor)
    assert "\n" not in str(problem.value)


def test_the_adapter_is_as_large_as_estimated():
    models, plain = tiny_lora(), tiny_models()
    assert sum(p.numel() for p in trainable(models.actor)) == adapter_parameters(plain.actor, 2)
    assert {p.dtype for p in trainable(models.actor)} == {torch.float32}


def test_training_moves_the_adapter_alone():
    models, plain = tiny_lora(), tiny_models()
    state = start_run(CONFIG, models, prompts=PROMPTS)
    reference = fingerprint(models.reference)
    responses = sample_responses(models.actor, models.tokenizer, PROMPTS, CONFIG)
    with torch.no_grad():
        before = forward_logprobs(plain.actor, *responses.tokens())
        at_first = forward_logprobs(models.actor, *responses.tokens())
    torch.testing.assert_close(at_first, before, atol=1e-6, rtol=0)
    first = iterate(state)
    assert first["first_ratio_error"] <= 1e-4 and abs(first["kl"]) <= 1e-4
    list(iterate(state) for _ in range(2))
    with torch.no_grad():
        now = forward_logprobs(models.actor, *responses.tokens())
        reference_now = forward_logprobs(models.reference, *responses.tokens())
    assert (now - before).abs().max() > 1e-3  # the policy has moved
    torch.testing.assert_close(reference_now, before, atol=1e-6, rtol=0)  # the reference has not
    assert fingerprint(models.reference) == reference


def test_a_run_goes_on_exactly_from_its_adapter(tmp_path):
    models = tiny_lora()
    state = start_run(CONFIG, models, prompts=PROMPTS)
    iterate(state)
    saved = save_checkpoint(state, tmp_path)
    names = [file.name for file in (saved / "actor").glob("*.safetensors")]
    assert names == ["adapter_model.safetensors"]
    # nothing frozen, not even the critic's trunk: trained weights, and two moments of each
    trained = [p for model in models.trained().values() for p in trainable(model)]
    files = [load_file(file) for file in saved.rglob("*.safetensors")]
    tensors = {name: x for file in files for name, x in file.items() if "generator." not in name}
    steps = len(trained)  # Adam counts its steps for each
    assert sum(x.numel() for x in tensors.values()) == 3 * sum(p.numel() for p in trained) + steps
    went_on = iterate(state)
    again = iterate(load_checkpoint(tmp_path, models=tiny_lora()))
    assert strip([again]) == strip([went_on])


def test_with_the_last_blocks_alone_the_backward_pass_stops_there():
    """Gradients of the lower blocks' activations are not computed: a forward, and an eighth of a backward."""
    pytest.importorskip("peft", reason="peft, an optional extra, is not installed")
    ids, counted = torch.zeros(4, 24, dtype=torch.long), {}
    for last in (None, 2):
        actor = small_lm("gpt2", num_hidden_layers=16, hidden_size=64, vocab_size=40)
        add_lora(actor, rank=2, last=last)
        with FlopCounterMode(display=False) as counter:
            actor(input_ids=ids).logits.sum().backward()
        counted[last] = counter.get_total_flops()
        touched = [n for n, p in actor.named_parameters() if p.grad is not None]
        assert touched and all(last is None or ".h.14." in n or ".h.15." in n for n in touched)
    assert counted[2] / counted[None] == pytest.approx((1 + 1 / 8) / 2, abs=0.05)


# --- frozen weights in bfloat16 -------------------------------------------------------------------


def with_base(base):
    """Models of one set of weights, frozen ones of this type, whose adapter is not at 0."""
    models = tiny_lora(base=base)
    for name, parameter in models.actor.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(0.0, 0.1, generator=torch.Generator().manual_seed(len(name)))
    return models


def adapter_gradients(models, responses):
    """Gradients of the responses' log-probs and values, as one vector each."""
    found = []
    for model, forward in ((models.actor, forward_logprobs), (models.critic, forward_values)):
        if forward is forward_values:
            torch.nn.init.ones_(model.value_head.weight)
        forward(model, *responses.tokens()).sum().backward()
        found.append(torch.cat([p.grad.flatten() for p in trainable(model)]))
    return found


def test_adapters_on_a_half_base_get_the_same_gradients_up_to_its_rounding():
    """bfloat16 rounds to 1/256; through a few layers gradients agree to a few times that."""
    exact, half = with_base(torch.float32), with_base(torch.bfloat16)
    named = half.actor.named_parameters()
    types = {"lora_" in name or "lm_head" in name: p.dtype for name, p in named}
    assert types == {True: torch.float32, False: torch.bfloat16}
    written = sample_responses(exact.actor, exact.tokenizer, PROMPTS, CONFIG)
    pairs = zip(adapter_gradients(exact, written), adapter_gradients(half, written), strict=True)
    for right, rounded in pairs:
        assert rounded.dtype == torch.float32 and right.norm() > 0
        error = float((rounded - right).norm() / right.norm())
        assert 0 < error < 0.05, error
        assert torch.cosine_similarity(right, rounded, dim=0) > 0.998


def test_logits_on_a_half_base_are_float32_and_so_nearer_to_the_right_ones():
    exact, half = with_base(torch.float32), with_base(torch.bfloat16)
    head = half.actor.get_output_embeddings()
    assert head.weight.dtype == torch.float32
    assert torch.equal(head.weight.bfloat16(), half.actor.get_input_embeddings().weight)
    hidden = 20 * torch.randn(64, head.weight.shape[1], generator=torch.Generator().manual_seed(0))
    hidden = hidden.bfloat16()
    right = hidden.double() @ head.weight.double().T
    rounded = torch.nn.functional.linear(hidden, head.weight.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        assert head(hidden).dtype == torch.float32  # under autocast too
    assert head(hidden).dtype == torch.float32 and rounded.dtype == torch.bfloat16
    error, coarse = ((x.double() - right).abs().max() for x in (head(hidden), rounded))
    assert error < 1e-2 * coarse
    assert half.actor.state_dict().keys() == exact.actor.state_dict().keys()


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_half_base_is_loaded_in_half_and_is_the_same(tmp_path, monkeypatch, kind, tied):
    """An 8B model in float32 would take 32 GB before its weights are halved to 16."""
    pytest.importorskip("peft", reason="peft, an optional extra, is not installed")
    small_lm(kind, vocab_size=500, tie_word_embeddings=tied).save_pretrained(tmp_path)
    loaded, load = [], AutoModelForCausalLM.from_pretrained

    def recorded(*arguments, **settings):
        model = load(*arguments, **settings)
        loaded.append({parameter.dtype for parameter in model.parameters()})
        return model

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", recorded)
    how = {"device": "cpu", "rank": 2, "base": torch.bfloat16}
    models = make_models(str(tmp_path), "data/sft", length_reward, "lora", **how)
    assert loaded == [{torch.bfloat16}]
    assert {p.dtype for p in trainable(models.actor)} == {torch.float32}
    halved = add_lora(load_actor(str(tmp_path), "cpu"), rank=2, base=torch.bfloat16)
    ids = torch.arange(20).reshape(2, 10)
    with torch.no_grad():
        assert torch.equal(models.actor(input_ids=ids).logits, halved(input_ids=ids).logits)
    merged = merge_adapter(models.actor)
    ends = merged.get_input_embeddings().weight, merged.get_output_embeddings().weight
    assert (ends[0] is ends[1]) == tied
    whole = make_models(str(tmp_path), "data/sft", length_reward, device="cpu", base=torch.bfloat16)
    assert {p.dtype for p in whole.actor.parameters()} == {torch.float32}  # it is trained


@pytest.mark.parametrize(
    ("device", "instructions", "base"),
    [("cpu", "AVX2", "float32"), ("cpu", "AVX512", "bfloat16"), ("cuda", "AVX2", "bfloat16")],
)
def test_frozen_weights_have_a_type_the_device_computes_in(monkeypatch, device, instructions, base):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    assert base_dtype(device) == getattr(torch, base)


def test_a_half_base_holds_the_bytes_that_are_estimated():
    held = sum(p.nbytes for p in with_base(torch.bfloat16).actor.parameters())
    what = tiny_models().actor, length_reward, CONFIG, 8, "lora", 2
    memory = estimate_memory(*what, base=torch.bfloat16)
    assert memory.total(role="actor", kind="weights") == held
