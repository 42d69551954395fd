"""Rarer slips of lessons 04, 05, 07 and 13 are named; two at once name one that is there."""

import pytest
import torch
from slip_answers import WRONG

from helpers import checks


def label(value):
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(("name", "mistake", "function"), WRONG, ids=label)
def test_a_slip_is_named(name, mistake, function):
    found = getattr(checks, f"check_{name}")(function)
    assert found.status == "mistake" and mistake in found.mistake, found


def test_an_answer_that_nothing_knows_is_placed_where_it_is_wrong():
    def odd(p, old, a, mask, eps):
        change = torch.where(mask, p - old, 0.0).exp()
        gain = torch.minimum(change * a, change.clamp(1 - eps, 1 + eps) * a)
        return -torch.where(a < 0, 1.7 * gain, gain)[mask].mean()

    found = checks.check_policy_loss(odd)
    assert "A < 0" in found.mistake and found.mistake.startswith("wrong where")


def test_a_token_left_out_is_placed_by_a_change_of_each_token():
    def odd(logits, mask):
        entropies = torch.distributions.Categorical(logits=logits).entropy()
        keep = mask.clone()
        keep[-1] = False
        return entropies[keep].mean() if len(mask) > 1 else entropies[mask].mean()

    assert "last response" in checks.check_entropy(odd).mistake
