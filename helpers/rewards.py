"""Rewards: how a run calls them, and the prompts' columns that go with them.

A reward is a `RewardModel` or any function that gives one finite number a response, as a list, array
or tensor [B]. Its parameters' names say how it is called:

- `reward(texts)`: prompt + response as one text, a list of B. Any function without `completions`.
- `reward(prompts, completions, **columns)`: lists of B, by name; a completion is the response's text
  without the prompt and without special tokens. It is given what it names, and every column with `**`.
  So are rewards written for TRL (there prompts and completions may also be messages: not here).

Columns come from prompts that are rows, `{"prompt": "...", "solution": "..."}`: all keys but `prompt`.
"""

import inspect
import json
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.reward_model import RewardModel
from helpers.sampling import Prompt, SampledText
from helpers.tools.validate import require, require_shape

Reward = Callable[..., Tensor]  # either form
NAME = "scores of the reward function"
RESERVED = {"prompts", "completions"}  # a reward's own arguments


def as_prompts(rows: list[str | dict]) -> list[str]:
    """Prompts as texts; those of rows carry the row's other columns. Anything else is left as it is.

    ValueError: a row without a text under `prompt`, other columns than the first one's, a column
    that JSON (a checkpoint) cannot hold.
    """
    if not isinstance(rows, (list, tuple)) or not any(isinstance(row, dict) for row in rows):
        return rows
    prompts = [_as_prompt(row) for row in rows]
    names = prompts[0].columns.keys()
    other = [sorted(p.columns) for p in prompts if p.columns.keys() != names]
    require(not other, "prompts", f"columns {other[:1]}", f"{sorted(names)} in every row")
    return prompts


def _as_prompt(row: str | dict) -> Prompt:
    """One row as a prompt."""
    row = {"prompt": row} if isinstance(row, str) else row
    text = isinstance(row, dict) and isinstance(row.get("prompt"), str)
    require(text, "prompts", repr(row)[:60], "rows with a text under 'prompt'")
    columns = {name: value for name, value in row.items() if name != "prompt"}
    for name, value in columns.items():
        fits = isinstance(name, str) and name not in RESERVED and _survives_json(value)
        got = f"{name!r}: {repr(value)[:60]}"
        wants = "texts, numbers, lists and dicts, under names other than prompts and completions"
        require(fits, "columns of prompts", got, wants)
    return Prompt(row["prompt"], columns)


def _survives_json(value: object) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def as_rows(prompts: list[str]) -> list[str | dict]:
    """The inverse of `as_prompts`: a row for a prompt with columns, a text for one without."""
    return [
        {"prompt": str(prompt)} | prompt.columns if getattr(prompt, "columns", {}) else prompt
        for prompt in prompts
    ]


def _parameters(reward: Callable) -> dict:
    """Parameters of a function by name; none of a built-in that does not tell."""
    try:
        return dict(inspect.signature(reward).parameters)
    except (TypeError, ValueError):
        return {}


def takes_completions(reward: Reward | RewardModel) -> bool:
    """Whether a reward is called with prompts, completions and columns, and not with whole texts."""
    return not isinstance(reward, RewardModel) and "completions" in _parameters(reward)


def _call(reward: Reward, texts: list[SampledText]) -> object:
    """Call a reward that takes completions, with what it names."""
    sampled = all(isinstance(text, SampledText) for text in texts)
    wants = "responses as they were sampled: this reward takes prompts and completions"
    require(sampled, "texts", "one without its prompt", wants)
    rows = [getattr(text.prompt, "columns", {}) for text in texts]
    given = {
        "prompts": [str(t.prompt) for t in texts],
        "completions": [t.completion for t in texts],
    }
    given |= {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
    named = _parameters(reward)
    if not any(p.kind is p.VAR_KEYWORD for p in named.values()):
        given = {name: values for name, values in given.items() if name in named}
    for name, parameter in named.items():
        known = name in given or parameter.default is not parameter.empty
        optional = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        columns = sorted(rows[0]) if rows else []
        wants = f"a column {name!r}, which the reward function names"
        require(known or optional, "prompts", f"rows with columns {columns}", wants)
    return reward(**given)


def score_texts(reward: Reward | RewardModel, texts: list[str]) -> Tensor:
    """Scores [B] on the CPU from a reward of either form, as it gives them: not normalised.

    ValueError: wrong count, NaN, infinite or no numbers, a column that the prompts do not have.
    """
    if takes_completions(reward):
        given = _call(reward, texts)
    else:
        given = (reward.score_texts if isinstance(reward, RewardModel) else reward)(texts)
    try:
        scores = torch.as_tensor(given).detach()
    except (RuntimeError, TypeError, ValueError):
        require(False, NAME, type(given).__name__, "one number per text")
    require(not scores.is_complex(), NAME, f"dtype {scores.dtype}", "real numbers")
    scores = scores.float().cpu()
    require_shape(NAME, scores, (len(texts),), like="the list of texts")
    bad = [text for text, ok in zip(texts, scores.isfinite().tolist(), strict=True) if not ok]
    require(not bad, NAME, f"NaN or inf for {bad[:1]}", "finite numbers")
    return scores
