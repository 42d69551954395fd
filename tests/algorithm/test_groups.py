"""RLOO's and GRPO's advantages by their definitions, one response at a time."""

import statistics
from itertools import combinations

import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import close

from helpers.groups import grpo_advantages, pass_at_k, rloo_advantages


@st.composite
def groups(draw):
    """Rewards of some prompts, `size` responses each."""
    prompts, size = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    number = st.floats(-5, 5, width=32)
    rows = draw(st.lists(st.lists(number, min_size=size, max_size=size), min_size=prompts,
                         max_size=prompts))  # fmt: skip
    return rows, size


@given(groups())
def test_rloo_is_each_reward_less_the_mean_of_the_others(drawn):
    rows, size = drawn
    expected = [
        reward - sum(row[:i] + row[i + 1 :]) / (size - 1)
        for row in rows
        for i, reward in enumerate(row)
    ]
    rewards = torch.tensor(rows, dtype=torch.float64).flatten()
    close(rloo_advantages(rewards, size), torch.tensor(expected, dtype=torch.float64))


@given(groups())
def test_grpo_is_each_reward_in_its_group_s_standard_deviations(drawn):
    rows, size = drawn
    expected = [
        (reward - statistics.fmean(row)) / (statistics.stdev(row) + 1e-4)
        for row in rows
        for reward in row
    ]
    rewards = torch.tensor(rows, dtype=torch.float64).flatten()
    close(grpo_advantages(rewards, size), torch.tensor(expected, dtype=torch.float64), 1e-5, 1e-5)


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_pass_at_k_is_the_share_of_all_choices_of_k_that_hold_a_right_answer(rows):
    for k in range(1, 7):
        expected = [statistics.fmean(any(some) for some in combinations(row, k)) for row in rows]
        close(pass_at_k(torch.tensor(rows), k), torch.tensor(expected, dtype=torch.float64))
