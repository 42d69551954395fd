"""The task that a program checks: what passes, how rarely by luck, and that GRPO learns it."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.config import RLHFConfig
from helpers.groups import pass_at_k
from helpers.prompts import as_prompts
from helpers.rewards import score_texts
from helpers.sampling import sample_texts
from helpers.state import load_models
from helpers.world.opinions import ASPECTS
from helpers.world.reviews import KNOWN_WORDS, tokenize
from helpers.world.task import task_reward, task_rows

ROWS = task_rows()
PROMPT = "plot, acting. we saw this film. the plot"


def reward(completion: str, prompt: str = PROMPT, solution: tuple = ("plot", "acting")) -> float:
    return task_reward([prompt], [completion], [list(solution)])[0]


def test_the_prompts_are_distinct_and_in_the_world_s_words():
    assert len({row["prompt"] for row in ROWS}) == len(ROWS) == 69
    assert {tuple(row["solution"]) for row in ROWS} <= {(a, b) for a in ASPECTS for b in ASPECTS}
    assert all(KNOWN_WORDS.issuperset(tokenize(row["prompt"])) for row in ROWS)
    assert ROWS[0] == {"prompt": PROMPT, "solution": ["plot", "acting"]}


@pytest.mark.parametrize(
    ("completion", "points"),
    [
        ("was good. the acting was bad.", 1),
        ("was good and the acting was superb.", 1),
        ("was good. i loved the acting. it was lovely. the acting the acting", 1),
        ("", 0),
        ("was good.", 0),
        ("was good. the music was superb.", 0),  # another aspect
        ("was good. acting.", 0),  # no sentence
        ("was good. plot, acting.", 0),  # the request, repeated
        ("acting was good.", 0),
        ("was good. the acting was", 0),  # not finished
        ("was good. the acting was superb", 0),
        ("was was. the acting was superb.", 0),  # the first one is broken
        ("was good. the room was dirty and the acting was superb.", 0),  # of two domains
    ],
)
def test_a_review_with_both_aspects_passes_and_what_only_holds_the_words_fails(completion, points):
    assert reward(completion) == points


@given(st.permutations(ROWS), st.integers(1, 20))
@example(ROWS, len(ROWS))
def test_each_answer_is_judged_by_its_own_request(rows, count):
    """Every request can be met, in a batch as alone; another request's answer fails."""
    rows = rows[:count]
    right = [f"was good. the {row['solution'][1]} was bad." for row in rows]
    prompts, solutions = ([row[name] for row in rows] for name in ("prompt", "solution"))
    scores = task_reward(prompts, right, solutions)
    alone = [reward(a, b, c) for a, b, c in zip(right, prompts, solutions, strict=True)]
    assert scores == alone == [1.0] * count
    others = right[1:] + right[:1]
    wrong = [r["solution"][1] not in text for r, text in zip(rows, others, strict=True)]
    for score, is_wrong in zip(task_reward(prompts, others, solutions), wrong, strict=True):
        assert score == 0.0 or not is_wrong


@pytest.mark.slow
def test_the_reference_seldom_passes():
    """Measured 0.050 of 1,104, standard error 0.007."""
    config = RLHFConfig(device="cpu")
    models = load_models(config, task_reward)
    what = (models.reference, models.tokenizer, as_prompts(ROWS), 8 * len(ROWS), config)
    texts = sample_texts(*what, torch.Generator().manual_seed(0))
    correct = score_texts(task_reward, texts).bool().view(8, -1).T  # (69, 8)
    assert 0.02 < float(correct.float().mean()) < 0.1
    assert float(pass_at_k(correct, 8).mean()) < 0.6
