"""Policies in the page: kernel, log-probs, samples, gradients, scores, updates and curves are helpers'."""

import copy
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import watched

from helpers.config import RLHFConfig
from helpers.data import load_rows
from helpers.groups import equal_groups, rloo_advantages
from helpers.models import count_parameters, load_actor, load_tokenizer, make_reference
from helpers.page.drift_page import ENGINE
from helpers.page.policies import as_script, policy_facts, reward_facts, shipped_words
from helpers.reward_model import load_reward_model
from helpers.sampling import decode
from helpers.state import Models, start_run
from helpers.studies.beta_sweep import load_policy
from tests.crash_harness import seeds
from tests.page.javascript import run
from tests.page.rloo_band import FILE as BAND
from tests.page.rloo_band import SETTINGS

SCRIPTS = [*ENGINE, "policy.js"]
ASKED = Path(__file__).with_name("train.js").read_text("utf-8")
WORDS = shipped_words()


@pytest.fixture(scope="module")
def world() -> tuple[Models, list[str]]:
    """The reference, a policy further on and the reward model, rounded to half floats; their files."""
    start = load_actor("data/sft", "cpu").half().float()
    actor = load_policy(copy.deepcopy(start), 0.1).half().float()
    reward = load_reward_model(device="cpu")
    reward.encoder.half().float(), reward.head.half().float()  # in place
    prompts = [row["prompt"] for row in load_rows("prompts.jsonl", ("prompt",))]
    facts = {"reference": policy_facts(start, WORDS), "further": policy_facts(actor, WORDS)}
    facts["reward"] = reward_facts(reward, prompts)
    models = Models(actor, None, reward, make_reference(start), load_tokenizer("data/sft"))
    return models, [as_script(name, one) for name, one in facts.items()]


# --- a policy, token by token ---------------------------------------------------------------------

TEXTS = [
    "the waiters were",
    "on a rainy sunday, i went to this concert. the band was",
    "The SOUP was not very",
    "a zebra, was!! it",
    "",
]


def with_policy(world, function: str, given: object) -> object:
    """What this function returns, where the reference is called `policy`."""
    script = "given => { const policy = readPolicy(POLICY_FILES.reference); return (%s)(given) }"
    return run(SCRIPTS, script % function, given, world[1])


def test_an_own_reward_is_normalised_on_its_responses_and_equal_ones_stay_equal():
    own = {"model": 0, "liked": ["we"], "like": 1, "disliked": [], "dislike": 0, "length": 0}
    reward = f"normalisedReward({json.dumps(own)}, all)"
    mixed, equal = (["we", "it"], 3 * ["it"])
    given = [[{"proxy": 0, "tokens": [word]} for word in words] for words in (mixed, equal)]
    script = f"(given) => given.map((all) => all.map({reward}))"
    found = run([*SCRIPTS, "points.js"], script, given)
    assert found[0] == pytest.approx([0.5**0.5, -(0.5**0.5)]) and found[1] == [0, 0, 0]


def torch_logprobs(models, ids: list[int]) -> torch.Tensor:
    """Log-probs of the reference for the token after these: [V]."""
    with torch.no_grad():
        return models.reference(torch.tensor([ids])).logits[0, -1].log_softmax(dim=-1)


def test_it_reads_a_text_as_torch_does(world):
    read = "ids => [ids, writeResponse(policy, policy, ids).next]"
    script = f"texts => texts.map(text => encode(policy, text)).map({read})"
    shown = with_policy(world, script, TEXTS)
    for text, (ids, found) in zip(TEXTS, shown, strict=True):
        assert ids == world[0].tokenizer(text)["input_ids"]
        expected = torch_logprobs(world[0], ids)
        for probs in found:  # of the writer, of the reader
            torch.testing.assert_close(torch.tensor(probs).log(), expected, atol=1e-4, rtol=0)


def test_every_half_float_is_read_as_numpy_reads_it():
    bits = np.arange(0, 0x7C00, dtype=np.uint16)  # all finite ones that are not negative
    bits = np.concatenate([bits, bits | 0x8000])
    script = "bits => [...fromHalf(new Uint16Array(bits).buffer)]"
    assert run(SCRIPTS, script, bits.tolist()) == bits.view(np.float16).tolist()


def test_what_it_writes_follows_its_own_probabilities_up_to_the_stop_or_its_length(world):
    """A uniform number u draws the first token whose summed probability reaches u; no drift from itself."""
    ids = world[0].tokenizer("my brother and i")["input_ids"]
    uniform = ((torch.arange(150) + 0.5) / 150).tolist()
    script = "([ids, us]) => us.map(u => writeResponse(policy, policy, ids, () => u))"
    written = with_policy(world, script, [ids, uniform])
    reached = [0.0, *torch_logprobs(world[0], ids).exp().double().cumsum(0).tolist()]
    for u, response in zip(uniform, written, strict=True):
        token = WORDS.index(response["words"][0])
        assert reached[token] - 1e-4 < u <= reached[token + 1] + 1e-4, (u, WORDS[token])
        assert max(map(abs, response["drift"])) < 1e-5
        ends = [word == "</s>" for word in response["words"]]
        assert len(ends) <= 24 and not any(ends[:-1])
        assert ends[-1] or len(ends) == 24
    assert len({response["words"][0] for response in written}) > 10
    assert max(len(response["words"]) for response in written) == 24


def test_a_file_holds_every_weight_once(world):
    facts = json.loads(world[1][0].removeprefix('POLICY_FILES["reference"] = ').removesuffix(";\n"))
    # the tied head counts once
    assert sum(size for _, size in facts["tensors"]) == count_parameters(world[0].reference)


# --- training -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(world):
    """Two iterations of helpers' own RLOO: what each observed, its gradients, and the policy's move."""
    models = copy.copy(world[0])
    models.actor = copy.deepcopy(models.actor)
    state = start_run(RLHFConfig(kl_coef=0.1, seed=3, **SETTINGS), models)
    before, seen = copy.deepcopy(models.actor.state_dict()), []
    for _ in range(2):
        _, found = watched(state)
        found["gradients"] = {n: p.grad.clone() for n, p in models.actor.named_parameters()}
        seen.append(found)
    moved = {name: x - before[name] for name, x in models.actor.state_dict().items()}
    return seen, moved


def as_lists(tensor, mask) -> list[list]:
    """The counted values of each row."""
    return [row[counted].tolist() for row, counted in zip(tensor, mask, strict=True)]


@pytest.fixture(scope="module")
def replayed(world, recorded) -> dict:
    """The page's engine on the same two rollouts."""
    tokens = [found["rollout"].tokens() for found in recorded[0]]
    given = [{"queries": as_lists(*t[:2]), "responses": as_lists(*t[2:])} for t in tokens]
    return run(SCRIPTS, "replay", {"rollouts": given, "klCoef": 0.1}, [*world[1], ASKED])


def worst(found: list[list], tensor, mask) -> float:
    """The largest difference from the counted values."""
    return (torch.tensor(sum(found, [])) - tensor[mask]).abs().max().item()


def test_logprobs_scores_and_advantages_are_those_of_helpers(recorded, replayed):
    for found, page in zip(recorded[0], replayed["done"], strict=True):
        rollout, mask = found["rollout"], found["rollout"].response_mask
        of = lambda name, page=page: [response[name] for response in page["responses"]]  # noqa: E731
        assert worst(of("logprobs"), rollout.logprobs, mask) < 1e-4
        assert worst(of("refLogprobs"), rollout.ref_logprobs, mask) < 1e-4
        assert (torch.tensor(of("score")) - rollout.scores).abs().max() < 1e-4
        assert sum(of("kl")) / len(of("kl")) == pytest.approx(found["metrics"]["kl"], abs=1e-4)
        each = torch.tensor(of("advantage")).unsqueeze(1)
        assert (torch.where(mask, each, 0.0) - rollout.advantages).abs().max() < 1e-3


def test_every_gradient_is_that_of_helpers(recorded, replayed):
    for found, page in zip(recorded[0], replayed["done"], strict=True):
        norm = found["metrics"]["grad_norm"]
        assert page["norm"] == pytest.approx(norm, rel=1e-3)
        for name, gradient in found["gradients"].items():
            short = name.removeprefix("transformer.")
            short = short.removesuffix(".weight") if short[:3] in ("wte", "wpe") else short
            shown = torch.tensor(page["gradients"][short])[: gradient.numel()]
            wanted = gradient.flatten() * max(norm, 1.0)  # torch has clipped it in place
            assert (shown - wanted).norm() < 1e-3 * wanted.norm(), name


def test_two_updates_move_the_policy_as_helpers_do(recorded, replayed):
    _, moved = recorded
    shown, start = torch.tensor(replayed["moved"]), 0
    assert replayed["simd"]
    for name, size in replayed["sizes"]:
        full = f"transformer.{name}" + (".weight" if name in ("wte", "wpe") else "")
        wanted = moved[full].flatten()
        difference = shown[start : start + wanted.numel()] - wanted
        assert difference.norm() < 1e-3 * wanted.norm(), name
        assert not shown[start + wanted.numel() : start + size].any()  # rows that round it up to 8
        start += size


def test_an_inspected_update_predicts_what_it_does_and_changes_nothing(world):
    shown = run(SCRIPTS, "inspected", {"klCoef": 0.1, "seed": 4}, [*world[1], ASKED])
    assert not shown["changed"]
    told, now = shown["told"], torch.tensor(sum(shown["now"], []))
    old, new, predicted = (
        torch.tensor(sum((response[name] for response in told), []))
        for name in ("logprobs", "newLogprobs", "predicted")
    )
    assert (new - now).abs().max() < 1e-5
    each = torch.tensor([r["advantage"] for r in told for _ in r["tokens"]])
    # the loss's gradient along the step is the sum over tokens of −advantage/count · the predicted change
    assert -(each * predicted).mean().item() == pytest.approx(shown["alongStep"], rel=0.02)
    change = new - old
    assert change.abs().max() > 0.05 and (predicted - change).std() < 0.5 * change.std()


@pytest.mark.parametrize("plain", [False, True])
def test_the_kernel_multiplies(plain):
    draw, asked, wanted = np.random.default_rng(0), [], []
    sizes = [(4, 8, 1, 0), (5, 16, 7, 0), (1, 24, 12, 0), (8, 8, 5, 1), (12, 16, 3, 1)]
    for m, n, k, turned in sizes:
        a, b = draw.normal(size=(k, m) if turned else (m, k)), draw.normal(size=(k, n))
        asked.append([plain, a.ravel().tolist(), b.ravel().tolist(), m, n, k, turned])
        wanted.append(((a.T if turned else a) @ b).ravel())
    found = run(SCRIPTS, "products", asked, [ASKED])
    for (simd, shown), product in zip(found, wanted, strict=True):
        assert simd is not plain
        assert np.abs(np.array(shown) - product).max() < 1e-5


def test_advantages_before_whitening_are_those_of_helpers():
    rewards = torch.randn(64, generator=torch.Generator().manual_seed(1))
    rewards[8:12] = 0.1 + 0.2  # a group of equal rewards
    shown = torch.tensor(run(SCRIPTS, "rewards => rlooAdvantages(rewards, 4)", rewards.tolist()))
    wanted = rloo_advantages(rewards, 4).masked_fill(equal_groups(rewards, 4), 0.0)
    assert (shown - wanted).abs().max() < 1e-5


def test_a_response_is_scored_as_its_text_is_read_again():
    tokenizer, draw = load_tokenizer("data/sft"), random.Random(2)
    often = [range(8), range(8, len(WORDS))]  # special tokens and signs: for what happens there
    texts = [[1, *(draw.choice(draw.choice(often)) for _ in range(20))] for _ in range(300)]
    script = "given => given.texts.map(text => scoredTokens(text, given.words))"
    shown = run(SCRIPTS, script, {"texts": texts, "words": WORDS})
    ids = torch.tensor(texts)
    every = torch.ones_like(ids, dtype=torch.bool)
    again = tokenizer(decode(tokenizer, ids[:, :1], every[:, :1], ids[:, 1:], every[:, 1:]))
    assert shown == again["input_ids"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize(
    "beta", ["0.1", *(pytest.param(beta, marks=pytest.mark.nightly) for beta in ("0", "1"))]
)
def test_its_curves_are_in_the_band_of_helpers_own_runs(world, beta, seed):
    """Means over iterations 6–10 and 16–20 are within 4 standard deviations of 8 seeds."""
    band = json.loads(BAND.read_text("utf-8"))[beta]
    given = {"klCoef": float(beta), "seed": seed, "iterations": len(band[0]["score"])}
    shown = run(SCRIPTS, "curve", given, [*world[1], ASKED])
    for name in ("score", "kl"):
        for some in (slice(5, 10), slice(15, 20)):
            others = np.array([np.mean(one[name][some]) for one in band])
            mean = np.mean([record[name] for record in shown][some])
            assert abs(mean - others.mean()) < 4 * others.std(ddof=1), (name, some)
