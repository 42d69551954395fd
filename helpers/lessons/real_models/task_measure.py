"""What a policy can do on checked answers: the right answer's probability, and pass@k.

The right answer, as it should be written, is one sequence of tokens: its probability is one forward
pass, and pass@k follows exactly. Other spellings of it that the checker accepts are left out, so it is
a lower bound; samples tell by how much.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from helpers.kl import kl_estimate
from helpers.lessons.real_models.tasks import LINE_END, answer_reward, strict_reward
from helpers.prompts import as_prompts
from helpers.rewards import score_texts
from helpers.rollouts import forward_logprobs
from helpers.sampling import Responses, encode_prompts, sample_responses
from helpers.sft import sft_loss
from helpers.state import RLHFState
from helpers.steps import full_logprobs, reference_logprobs, stopped

ROWS = 400  # responses at once
RESAMPLES = 2000  # of a bootstrap
ORDINARY = Path(__file__).with_name("ordinary.txt").read_text("utf-8").splitlines()
GREEDY = 1e-3  # a temperature at which the likeliest token is drawn


@torch.no_grad()
def answer_probs(
    policy: nn.Module, tokenizer: PreTrainedTokenizerBase, rows: list[dict], size: int = 50
) -> Tensor:
    """Probability of each prompt's right answer and its line's end, at temperature 1: rows of P → [P]."""
    found = []
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        queries = encode_prompts(tokenizer, [row["prompt"] for row in some], policy.device)
        answers = [f" {row['solution']}{LINE_END}" for row in some]
        how = {"padding": True, "padding_side": "right", "return_tensors": "pt"}
        answer = tokenizer(answers, add_special_tokens=False, **how).to(policy.device)
        given = answer["input_ids"], answer["attention_mask"].bool()
        found.append(forward_logprobs(policy, *queries, *given).sum(dim=1).exp())
    return torch.cat(found).double().cpu()


def pass_of_k(probs: Tensor, k: int) -> Tensor:
    """Probability that one of k answers is right: 1 − (1 − p)^k, exactly: [P] → [P]."""
    return -torch.expm1(k * torch.log1p(-probs.double()))


def interval(values: Tensor) -> dict[str, float]:
    """Mean over prompts with its 95 % bootstrap interval (prompts drawn again): [P] → mean, low, high."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(len(values), (RESAMPLES, len(values)), generator=generator)
    ends = values.double()[drawn].mean(dim=1).quantile(torch.tensor([0.025, 0.975]).double())
    return {"mean": float(values.double().mean()), "low": float(ends[0]), "high": float(ends[1])}


def curve_row(probs: Tensor) -> dict[str, float]:
    """pass@1 and pass@8 with their intervals, from the right answers' probabilities: [P]."""
    eight = {f"{name}_8": x for name, x in interval(pass_of_k(probs, 8)).items()}
    return interval(probs) | eight


def answers(
    policy: nn.Module, state: RLHFState, rows: list[dict], copies: int, seed: int = 12345, **changes
) -> Iterator[Responses]:
    """`copies` answers to each prompt, in a row, some prompts at a time; `changes` of the config."""
    config, tokenizer = replace(state.config, **changes), state.models.tokenizer
    prompts = as_prompts(rows, tokenizer)
    generator = torch.Generator(device=state.models.device).manual_seed(seed)
    size = max(ROWS // copies, 1)
    for start in range(0, len(prompts), size):
        some = prompts[start : start + size]
        yield sample_responses(policy, tokenizer, some, config, generator, copies=copies)


def solved(batches: Iterable[Responses], state: RLHFState, copies: int) -> dict[str, Tensor]:
    """Whether every answer is right, right to the letter, ended: [P, copies] each."""
    columns = {"right": [], "strict": [], "ended": []}
    for batch in batches:
        columns["right"].append(score_texts(answer_reward, batch.texts))
        columns["strict"].append(score_texts(strict_reward, batch.texts))
        columns["ended"].append(stopped(state, batch))
    return {name: torch.cat(some).float().view(-1, copies) for name, some in columns.items()}


@torch.no_grad()
def ordinary_loss(policy: nn.Module, tokenizer: PreTrainedTokenizerBase) -> float:
    """Mean −log p of a token in sentences of everyday talk, nats: what a policy may forget."""
    how = {"padding": True, "padding_side": "right", "return_tensors": "pt"}
    encoded = tokenizer(ORDINARY, **how).to(policy.device)
    mask = encoded["attention_mask"].bool()
    return float(sft_loss(policy, encoded["input_ids"], mask, mask))


def kl_of_each(state: RLHFState, batch: Responses) -> Tensor:
    """log π − log π_ref of each of the policy's own responses, nats: [B]."""
    own = full_logprobs(state.models.actor, state, batch)
    return kl_estimate(own, reference_logprobs(state, batch)).sum(dim=1)
