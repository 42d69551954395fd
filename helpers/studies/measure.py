"""Measuring a policy at leisure: many fresh responses, as many to each prompt."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from helpers.sampling import sample_batches
from helpers.state import RLHFState
from helpers.steps import evaluate, full_logprobs
from helpers.studies.runs import WATCHED_PROMPTS
from helpers.theory.optimum import policy_value
from helpers.world import reviews
from helpers.world.gold import gold_scores
from helpers.world.labelling import flatters

EVALUATED = 160  # fresh responses to each prompt
PARSED = 40  # of them, for measures that parse every text, gold among them
REFERENCE_SAMPLES = 2000  # to each prompt, to estimate the optimum
MEASURES = {
    "gold": gold_scores,
    "grammatical": lambda texts: [float(reviews.is_sentence(text)) for text in texts],
    "flattery": lambda texts: [float(flatters(text)) for text in texts],
}


def measure(
    state: RLHFState, policy: nn.Module, per_prompt: int = EVALUATED, seed: int = 12345
) -> tuple[dict, dict[str, Tensor]]:
    """Fresh responses of a policy, as many to each prompt: means with J(π) and its standard error,
    and the `score` and `kl` of every response, [P, per_prompt] each.
    """
    prompts = len(state.prompts)
    count, parsed = per_prompt * prompts, min(per_prompt, PARSED) * prompts
    found, texts = evaluate(policy, replace(state, measures={}), count, seed)
    by_prompt = {name: x.view(per_prompt, prompts).T for name, x in found.items()}
    value = policy_value(by_prompt["score"], by_prompt["kl"], state.config.kl_coef)
    for name, f in state.measures.items():
        found[name] = torch.as_tensor(f(texts[:parsed])).float()
    means = {name: float(x.mean()) for name, x in found.items()}
    spread = {f"{name}_std": float(x.std()) for name, x in found.items()}
    facts = {"responses": count, "value": value.mean, "value_stderr": value.stderr} | means | spread
    return facts, {name: by_prompt[name].contiguous() for name in ("score", "kl")}


@torch.no_grad()
def sample_reference(
    state: RLHFState, per_prompt: int, proposal: nn.Module, own: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Fresh reference responses: `scores` and `gold` [P, N]; `first_tokens` of the watched, [W, N].

    With a policy's `own` responses (`score` and `kl` [P, M], see `measure`) they form a mixture from
    which J* is estimated: `proposal_scores` [P, M], and log proposal − log π_ref of all, reference
    first, `log_ratios` [P, N + M].
    """
    models = state.models
    generator = torch.Generator(device=models.device).manual_seed(777)
    scores, gold, ratios, first = [], [], [], {}
    for prompt in tqdm(state.prompts, desc="reference"):
        texts, begins, ratio = [], [], []
        what = (models.reference, models.tokenizer, [prompt], per_prompt, state.config, generator)
        for responses in sample_batches(*what, batch_size=500):
            texts += responses.texts
            begins.append(responses.response_tensors[:, 0].cpu())
            logprobs = full_logprobs(proposal, state, responses)
            ratio.append((logprobs - responses.logprobs).sum(dim=1).cpu())
        scores.append(state.score(texts))
        gold.append(torch.tensor(gold_scores(texts)))
        ratios.append(torch.cat(ratio))
        if prompt in WATCHED_PROMPTS:
            first[prompt] = torch.cat(begins).short()
    return {
        "scores": torch.stack(scores),
        "gold": torch.stack(gold).float(),
        "first_tokens": torch.stack([first[prompt] for prompt in WATCHED_PROMPTS]),
        "proposal_scores": own["score"],
        "log_ratios": torch.cat([torch.stack(ratios), own["kl"]], dim=1),
    }
