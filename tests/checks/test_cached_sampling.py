"""The large exercise of lesson 01: samplers with one wrong line are caught and named, right ones pass.

Each is the lesson's solution with one piece of text replaced: (what is wrong, what the report calls it,
right text, wrong text).
"""

import pytest
import torch
from conftest import in_turn

from helpers import checks
from helpers.checks.judging.report import CORRECT, MISTAKE
from tests.notebooks.exercises import NOTEBOOKS, read, solutions

(LESSON,) = (path for path in NOTEBOOKS if path.stem == "01_rollouts")
SOLUTION = solutions(read(LESSON))["sample_with_cache"]
MASK = '"attention_mask": mask'
STEP = "positions = positions[:, -1:] + 1"
PASS = "past_key_values=cache, use_cache=True"
LOOP = "while running.any() and len(drawn) < config.response_length:"
INPUTS = "        inputs = {"

# fmt: off
WRONG = [
    ("sampled padding does not count", "a padding token that was drawn", "    return ids, mask,",
     "    mask = mask & (ids != tokenizer.pad_token_id)\n    return ids, mask,"),
    ("a mask of the new token only", "not the whole mask", MASK, '"attention_mask": mask[:, -new.shape[1]:]'),
    ("the prompt's mask for ever", "not the whole mask", MASK, '"attention_mask": prompt_mask'),
    ("no mask", "padding is read", MASK + ", ", ""),
    ("position not advanced", "the position of the new token", STEP, "positions = positions[:, -1:]"),
    ("position two further", "the position of the new token", STEP, "positions = positions[:, -1:] + 2"),
    ("position is the column", "the position of the new token", STEP,
     "positions = torch.full_like(token, ids.shape[1] - 1)"),
    ("position starts at 0 again", "the position of the new token", STEP,
     "positions = torch.full_like(token, len(drawn) - 1)"),
    ("no position after the prompt", "no position for the new token", STEP, "positions = None"),
    ("positions from 1", "positions count from 1", "mask.cumsum(1) - mask.long()", "mask.cumsum(1)"),
    ("all tokens again", "more than the new token", "actor(new,", "actor(ids,"),
    ("a new cache each time", "a new cache each time", INPUTS,
     "        cache = DynamicCache(config=actor.config)\n" + INPUTS),
    ("no cache at all", "no cache", f'actor(new, **inputs, {PASS})',
     "actor(ids, attention_mask=mask, position_ids=mask.cumsum(1) - mask.long())"),
    ("padded right", "padded right", 'padding_side="left"', 'padding_side="right"'),
    ("no temperature", "no temperature", " / config.temperature", ""),
    ("times the temperature", "times the temperature", "/ config.temperature", "* config.temperature"),
    ("greedy", "likeliest", "torch.multinomial(logprobs.exp(), 1)", "logprobs.argmax(-1, keepdim=True)"),
    ("drawn at temperature 1", "another distribution", "torch.multinomial(logprobs.exp(), 1)",
     "torch.multinomial(output.logits[:, -1].softmax(-1), 1)"),
    ("log-prob of the likeliest", "likeliest", "gather(1, token)", "amax(-1, keepdim=True)"),
    ("probabilities kept", "probabilities", "drawn.append(logprobs.", "drawn.append(logprobs.exp()."),
    ("cross-entropy kept", "negative log-probs", "drawn.append(", "drawn.append(-"),
    ("log-prob of the token before", "after the first", "gather(1, token)",
     "gather(1, token if new is batch.input_ids else new)"),
    ("stop token masked", "stop token is masked", "torch.cat([mask, running], 1)",
     "torch.cat([mask, running & (new != tokenizer.eos_token_id)], 1)"),
    ("stop token left out", "ended without a stop token",
     "new = torch.where(running, token, tokenizer.pad_token_id)",
     "running = running & (token != tokenizer.eos_token_id)\n"
     "        new = torch.where(running, token, tokenizer.pad_token_id)"),
    ("the mask starts again", "starts again", "running = running & (new", "running = (new"),
    ("padding counts", "counts on", "torch.cat([mask, running], 1)",
     "torch.cat([mask, torch.ones_like(running)], 1)"),
    ("goes on after the stop token", "counts on", "running & (new != tokenizer.eos_token_id)", "running"),
    ("all stop with the first", "too early", "running.any()", "running.all()"),
    ("one token too many", "too long", "len(drawn) <", "len(drawn) <="),
    ("not padded", "not padded", "torch.where(running, token, tokenizer.pad_token_id)", "token"),
    ("a mask of 0 and 1", "dtype", "return ids, mask,", "return ids, mask.long(),"),
    ("gradient kept", "gradient kept", "@torch.no_grad()\n", ""),
    ("responses only", "wrong shape", "return ids, mask,",
     "return ids[:, -len(drawn):], mask[:, -len(drawn):],"),
    ("stop token for padding", "padded with the stop token", "tokenizer.pad_token_id",
     "tokenizer.eos_token_id"),
    ("always to the limit", "runs on after all have stopped", "running.any() and ", ""),
    ("one token at least", "the stop token cannot come first", "        token =",
     "        if not drawn:\n            logits = logprobs.clone()\n"
     "            logits[:, tokenizer.eos_token_id] = -30\n            logprobs = logits.log_softmax(-1)\n"
     "        token ="),
    ("exp of large logits", "overflow", "logprobs.exp()",
     "(output.logits[:, -1] / config.temperature).exp()"),
]
RIGHT = [
    ("a list of log-probs", "torch.cat(drawn, 1)", "torch.stack([x[:, 0] for x in drawn], dim=1)"),
    ("Categorical", "torch.multinomial(logprobs.exp(), 1)",
     "torch.distributions.Categorical(logits=logprobs).sample()[:, None]"),
    ("Gumbel", "torch.multinomial(logprobs.exp(), 1)",
     "(logprobs - torch.empty_like(logprobs).exponential_().log()).argmax(-1, keepdim=True)"),
    ("a mask of 0 and 1 inside", MASK, '"attention_mask": mask.long()'),
    ("positions by counting", STEP, "positions = mask.sum(1, keepdim=True) - 1"),
    ("positions as Hugging Face has them", "mask.cumsum(1) - mask.long()",
     "(mask.cumsum(1) - 1).masked_fill(~mask, 1)"),
    ("a cache that the model makes", PASS,
     "past_key_values=cache if drawn else None, use_cache=True"),
    ("in float64", "(output.logits[:, -1] /", "(output.logits[:, -1].double() /"),
]
# fmt: on


def sampler(text="", instead=""):
    """The lesson's solution, with one piece replaced."""
    assert text in SOLUTION, text
    source = SOLUTION.replace(text, instead) if text else SOLUTION
    if "prompt_mask" in source:
        source = source.replace("    cache =", "    prompt_mask = mask\n    cache =")
    if "if drawn else None" in source:
        source = source.replace(
            "        logprobs =", "        cache = output.past_key_values\n        logprobs ="
        )
    names = {"torch": torch}
    exec(compile(source, "sampler", "exec"), names)
    return names["sample_with_cache"]


def test_there_are_enough_of_both():
    assert len(WRONG) >= 20 and len(RIGHT) >= 6


@pytest.mark.slow
@pytest.mark.parametrize(("what", "name", "text", "instead"), in_turn(WRONG), ids=lambda x: x[:40])
def test_a_wrong_line_is_named(what, name, text, instead):
    report = checks.check_sample_with_cache(sampler(text, instead))
    assert report.status == MISTAKE and name in report.mistake, report


@pytest.mark.slow
@pytest.mark.parametrize(("what", "text", "instead"), in_turn(RIGHT), ids=lambda x: x[:40])
def test_a_right_sampler_passes_however_written(what, text, instead):
    report = checks.check_sample_with_cache(sampler(text, instead))
    assert report.status == CORRECT, report


def test_the_whole_text_without_a_cache_is_right_in_lesson_06_and_too_dear_here():
    text = "actor(new, **inputs, past_key_values=cache, use_cache=True)"
    slow = sampler(
        text, "actor(ids, attention_mask=mask, position_ids=mask.cumsum(1) - mask.long())"
    )
    assert checks.check_write_responses(slow).status == CORRECT
    assert checks.check_sample_with_cache(slow).mistake == "no cache"
