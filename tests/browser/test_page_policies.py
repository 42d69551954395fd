"""The policies that run in the drift page: the same log-probs as torch's, and the box around them."""

import json

import pytest
import torch

from helpers.models import load_actor, load_tokenizer
from helpers.page import drift_page
from helpers.page.policies import REFERENCE, as_script, export_policies, policy_facts
from helpers.rollouts import position_ids
from helpers.sampling import plain_tokens
from helpers.studies.beta_sweep import load_sweep

TEXTS = (
    "the waiters were",
    "on a rainy sunday, i went to this concert. the band was",
    "The SOUP was not very",
    "a zebra, was!! it",
    "",
)


def rounded(actor):
    """The actor with its weights as half floats hold them."""
    return actor.half().float()


@pytest.fixture(scope="module")
def reference():
    return rounded(load_actor("data/sft", "cpu"))


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("data/sft")


@pytest.fixture(scope="module")
def bare(browser, reference, tokenizer):
    """A page with nothing but the script of the policy, and the reference in it."""
    words = plain_tokens(tokenizer, list(range(reference.config.vocab_size)))
    page = browser.new_page()
    page.set_content("<p>policy</p>")
    for name in (*drift_page.ENGINE, "policy.js"):
        page.add_script_tag(content=drift_page.part(name))
    page.add_script_tag(content="globalThis.POLICY_FILES = {};")
    page.add_script_tag(content=as_script(REFERENCE, policy_facts(reference, words)))
    page.evaluate("() => { globalThis.policy = readPolicy(POLICY_FILES.reference) }")
    yield page
    page.close()


def torch_logprobs(model, ids: list[int]) -> torch.Tensor:
    """Log-probs of the token after each of these: [T, V]."""
    tokens = torch.tensor([ids])
    mask = torch.ones_like(tokens, dtype=torch.bool)
    with torch.no_grad():
        found = model(input_ids=tokens, attention_mask=mask, position_ids=position_ids(mask))
    return found.logits[0].log_softmax(dim=-1)


@pytest.mark.parametrize("text", TEXTS)
def test_javascript_reads_a_text_as_torch_does(bare, reference, tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert bare.evaluate("text => encode(policy, text)", text) == ids
    found = bare.evaluate("ids => writeResponse(policy, policy, ids).next", ids)
    expected = torch_logprobs(reference, ids)[-1]
    for probs in found:  # of the writer, of the reader
        assert (torch.tensor(probs).log() - expected).abs().max() < 1e-4


def test_every_half_float_is_read_as_numpy_reads_it(bare):
    bits = torch.arange(0, 0x7C00, dtype=torch.int16)  # all finite ones that are not negative
    bits = torch.cat([bits, bits | -0x8000])
    given = bits.numpy().view("uint16").tolist()
    found = bare.evaluate("bits => [...fromHalf(new Uint16Array(bits).buffer)]", given)
    assert torch.equal(torch.tensor(found), bits.view(torch.float16).float())


def test_what_is_written_follows_the_policy_s_own_probabilities(bare, reference, tokenizer):
    """A uniform number u draws the first token whose summed probability reaches u; no drift from itself."""
    ids = tokenizer("the waiters were")["input_ids"]
    uniform = ((torch.arange(150) + 0.5) / 150).tolist()
    written = bare.evaluate(
        "([ids, us]) => us.map(u => writeResponse(policy, policy, ids, () => u))", [ids, uniform]
    )
    words = plain_tokens(tokenizer, list(range(reference.config.vocab_size)))
    reached = torch_logprobs(reference, ids)[-1].exp().double().cumsum(0)
    before = reached - reached.diff(prepend=reached.new_zeros(1))
    for u, response in zip(uniform, written, strict=True):
        token = words.index(response["words"][0])
        assert before[token] - 1e-4 < u <= reached[token] + 1e-4, (u, words[token])
        assert max(map(abs, response["drift"])) < 1e-5
    assert len({response["words"][0] for response in written}) > 10


def test_a_response_ends_at_the_stop_or_at_its_length(bare, tokenizer):
    ids = tokenizer("i")["input_ids"]
    script = "ids => Array.from({length: 16}, () => writeResponse(policy, policy, ids).words)"
    for response in bare.evaluate(script, ids):
        ends = [word == "</s>" for word in response]
        assert len(response) <= 24 and not any(ends[:-1])
        assert ends[-1] or len(response) == 24


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The page with two policies beside it."""
    folder = tmp_path_factory.mktemp("page")
    names = export_policies(folder / "policies", [0.0, 0.1])
    drift_page.export(folder / "index.html", load_sweep(), names)
    return folder


def test_a_reader_s_own_beginning_is_written_on_by_both(browser, exported):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((exported / "index.html").as_uri() + "#iteration=0")
    page.locator("#try-box summary").click()
    page.locator("#try-text").fill("the zebra was")
    page.locator("#beta").press("End")
    page.get_by_role("button", name="Write").click()
    page.wait_for_function("() => document.querySelectorAll('.own-text .word').length > 1")
    assert page.locator(".own h3").all_inner_texts() == ["Before training", "Trained at β = 0.1"]
    assert page.locator(".own .given").all_inner_texts() == ["the zebra was"] * 2
    assert "does not know “zebra”" in page.locator("#try-said").inner_text()
    assert page.locator("#try-next .bar").count() == 8
    before = page.locator(".own-text").first.inner_text()
    page.locator("#beta").press("Home")  # one β for the whole page; the same random numbers
    page.get_by_role("heading", name="Trained at β = 0", exact=True).wait_for()
    assert page.locator(".own-text").first.inner_text() == before
    page.locator("#try-text").fill("very " * 60)
    page.locator("#try-text").press("Enter")
    page.get_by_text("too long").wait_for()
    assert page.locator(".own").count() == 0  # no older text below the message
    assert said == []
    page.close()


def test_the_gold_of_one_s_own_words_follows_them(browser, exported):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((exported / "index.html").as_uri() + "#iteration=0")
    page.locator("#try-box summary").click()
    page.locator("#try-text").fill("the zebra was")
    page.wait_for_function("() => document.getElementById('try-said').innerText")
    assert "does not know “zebra”" in page.locator("#try-said").inner_text()
    assert page.locator("#try-gold").inner_text() == ""  # not a sentence yet
    page.locator("#try-text").fill("the soup was tasty. waiter.")
    wanted = "gold −2.25: +1.00 praise: tasty · −3.25 outside the grammar"
    assert page.locator("#try-gold").inner_text() == wanted
    page.close()


def test_a_page_without_its_policies_says_so(browser, exported, tmp_path):
    alone = tmp_path / "index.html"
    alone.write_bytes((exported / "index.html").read_bytes())
    page = browser.new_page()
    page.goto(alone.as_uri() + "#iteration=0")
    page.locator("#try-box summary").click()
    page.get_by_role("button", name="Write").click()
    page.wait_for_function("() => document.getElementById('try-said').innerText.includes('beside')")
    assert page.get_by_role("button", name="Write").is_enabled()
    page.close()


def test_a_page_exported_without_policies_offers_none(browser, tmp_path):
    drift_page.export(tmp_path / "index.html", load_sweep())
    page = browser.new_page()
    page.goto((tmp_path / "index.html").as_uri() + "#iteration=0")
    assert page.locator("#try-box").is_hidden()
    page.close()


def test_a_file_holds_every_weight_once(reference):
    text = as_script("x", policy_facts(reference, ["a"]))
    facts = json.loads(text.removeprefix('POLICY_FILES["x"] = ').removesuffix(";\n"))
    parameters = sum(p.numel() for p in reference.parameters())  # the tied head counts once
    assert sum(size for _, size in facts["tensors"]) == parameters
