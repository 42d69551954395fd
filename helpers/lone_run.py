"""A single run as a sweep of one, so that the drift explorer can show it: any model, any tokenizer."""

from torch import nn

from helpers.measure import measure, sample_reference
from helpers.runs import WATCHED, Run
from helpers.state import RLHFState
from helpers.sweep_results import Sweep
from helpers.validate import require
from helpers.writing import plain_tokens


def lone_sweep(run: Run, state: RLHFState, per_prompt: int = 100) -> Sweep:
    """The run, measured at its end on fresh responses, beside as many of the reference's own.

    The run is given its `final` and `responses`; the exact optimum is weighed out of the reference's
    samples where `per_prompt` of them reach it. ValueError: an empty run, no WATCHED prompt.
    """
    require(bool(run.history), "run", "no iteration", "one that has begun")
    missing = [prompt for prompt in WATCHED if prompt not in state.prompts]
    require(not missing, "prompts", f"none of them {missing[:1]}", f"the watched ones, {WATCHED}")
    run.final, run.responses = measure(state, state.models.actor, max(2, per_prompt // 4))
    reference = sample_reference(state, per_prompt, bar=False)
    return Sweep([run], reference, list(state.prompts), {"command": "a run of your own"})


def vocabulary_words(state: RLHFState, model: nn.Module | None = None) -> list[str]:
    """What each number of a next-token distribution stands for: list of V."""
    tokenizer = state.models.tokenizer
    rows = (model or state.models.actor).get_input_embeddings().num_embeddings
    known = plain_tokens(tokenizer, list(range(len(tokenizer))))
    return known + [f"[{i}]" for i in range(len(known), rows)]  # rows that no token has
