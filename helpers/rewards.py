"""Rewards: how a run calls them, and the prompts' columns that go with them.

A reward is a `RewardModel` or any function that gives one finite number a response, as a list, array
or tensor [B]. Its parameters' names say how it is called:

- `reward(texts)`: prompt + response as one text, a list of B. Any function without `completions`.
- `reward(prompts, completions, **columns)`: lists of B, by name; a completion is the response's text
  without the prompt and without special tokens. It is given what it names, and every column with `**`.
  So are rewards written for TRL (there prompts and completions may also be messages; here both are
  texts, and the messages of a conversation are a column of that name).

Columns come from prompts that are rows, `{"prompt": "...", "solution": "..."}`: all keys but `prompt`.
Several rewards are added up by `RewardSum`.
"""

import inspect
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from helpers.reward_model import RewardModel
from helpers.sampling import SampledText
from helpers.tools.validate import require, require_number, require_shape

Reward = Callable[..., Tensor]  # either form
NAME = "scores of the reward function"


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
    completions = [text.completion for text in texts]
    given = {"prompts": [str(text.prompt) for text in texts], "completions": completions}
    given |= {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
    require_columns(reward, list(rows[0]) if rows else [])
    named = _parameters(reward)
    if not any(p.kind is p.VAR_KEYWORD for p in named.values()):
        given = {name: values for name, values in given.items() if name in named}
    return reward(**given)


def require_columns(reward: Reward, columns: list[str]) -> None:
    """ValueError: a reward that takes completions names a column that the prompts do not have."""
    for name, parameter in _parameters(reward).items():
        known = name in ("prompts", "completions", *columns)
        optional = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        fits = known or optional or parameter.default is not parameter.empty
        wants = f"a column {name!r}, which the reward function names"
        require(fits, "prompts", f"rows with columns {['prompt', *sorted(columns)]}", wants)


def score_texts(reward: Reward | RewardModel, texts: list[str]) -> Tensor:
    """Scores [B] on the CPU from a reward of either form, as it gives them: not normalised.

    ValueError: wrong count, NaN, infinite or no numbers, a column that the prompts do not have;
    RuntimeError: the function raised an OSError.
    """
    try:
        if takes_completions(reward):
            given = _call(reward, texts)
        else:
            given = (reward.score_texts if isinstance(reward, RewardModel) else reward)(texts)
    except OSError as problem:  # of a judge over a network: no file of the run's
        name = getattr(reward, "__name__", type(reward).__name__)
        said = f"{type(problem).__name__}: {problem}"
        raise RuntimeError(f"The reward {name} raised {said}") from problem
    try:
        scores = torch.as_tensor(given).detach()
    except (RuntimeError, TypeError, ValueError):
        of = f" of {type(given[0]).__name__}" if isinstance(given, list) and given else ""
        require(False, NAME, f"{type(given).__name__}{of}", "one number per text")
    require(not scores.is_complex(), NAME, f"dtype {scores.dtype}", "real numbers")
    scores = scores.float().cpu()
    require_shape(NAME, scores, (len(texts),), like="the list of texts")
    bad = [text for text, ok in zip(texts, scores.isfinite().tolist(), strict=True) if not ok]
    require(not bad, NAME, f"NaN or inf for {bad[:1]}", "finite numbers")
    return scores


class RewardSum:
    """Several rewards as one: their weighted sum, called with texts. Each may be of either form.

    `measures()` gives the rewards by name, so that a run records each beside the sum: pass it to
    `train_rlhf_loop`. The sum is what is normalised, not its parts.
    """

    def __init__(self, rewards: list[Reward | RewardModel], weights: list[float] | None = None):
        """Weights are 1 if not given. ValueError: no reward, other numbers of the two, no number."""
        require(len(rewards) > 0, "rewards", "none", "at least one")
        weights = [1.0] * len(rewards) if weights is None else list(weights)
        same = len(weights) == len(rewards)
        require(same, "weights", f"{len(weights)} of them", f"{len(rewards)}, one for each reward")
        for weight in weights:
            require_number("weights", weight)
        self.rewards, self.weights = list(rewards), weights

    def __call__(self, texts: list[str]) -> Tensor:
        """Σ weight·score on the CPU: list of B → [B]."""
        scores = [score_texts(reward, texts) for reward in self.rewards]
        return sum(weight * score for weight, score in zip(self.weights, scores, strict=True))

    def measures(self) -> dict[str, Callable]:
        """Each reward without its weight, under its name; a second of a name is "name_2"."""
        found: dict[str, Callable] = {}
        for reward in self.rewards:
            plain = "reward_" + getattr(reward, "__name__", type(reward).__name__)
            names = [plain] + [f"{plain}_{k}" for k in range(2, len(self.rewards) + 1)]
            found[next(name for name in names if name not in found)] = partial(score_texts, reward)
        return found
