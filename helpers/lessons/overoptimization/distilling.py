"""Beside PPO, at as many responses: SFT on the best of n, and on-policy distillation from the optimum π*."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from helpers.lessons.overoptimization.checks import check_distillation_loss
from helpers.ppo import gradient_step
from helpers.rollouts import forward_logprobs
from helpers.sampling import Responses, sample_batches
from helpers.sft import sft_loss
from helpers.state import RLHFState, start_run
from helpers.steps import anneal, draw_prompts, generate_responses, reference_logprobs
from helpers.studies.beta_sweep import load_sweep
from helpers.studies.measure import MEASURES, measure
from helpers.studies.runs import Run
from helpers.studies.study import Job, StudyOptions, loader
from helpers.tools.pool import advance

KL_COEF, BATCH = 0.1, 128  # as of the sweep's run beside them
KINDS = ("best_of_10", "optimal")  # SFT on the best of 10; π* as the teacher
RATE, EPOCHS, ROWS = 1e-3, 3, 64  # Adam's rate; of SFT: passes over what was kept, texts a step


def log_normalizers(kl_coef: float) -> dict[str, Tensor]:
    """log Z(x) = log E_{y∼π_ref} exp(r/β) of each prompt, from the sweep's reference samples."""
    sweep = load_sweep()
    scores = sweep.reference["scores"] / kl_coef
    return dict(zip(sweep.prompts, scores.logsumexp(1) - math.log(scores.shape[1]), strict=True))


def optimal_logprobs(state: RLHFState, responses: Responses, log_z: dict[str, Tensor]) -> Tensor:
    """log π*(y|x) = log π_ref(y|x) + r/β − log Z(x) of whole responses: [B] nats."""
    reference = reference_logprobs(state, responses).sum(dim=1)
    log_z_of_each = torch.stack([log_z[text.prompt] for text in responses.texts])
    return reference + state.score(responses.texts) / state.config.kl_coef - log_z_of_each


def distil(state: RLHFState, loss: Callable[[Tensor, Tensor], Tensor]) -> Iterator[float]:
    """A gradient step for each batch of the policy's own responses; yields its mean of log π − log π*."""
    log_z = log_normalizers(state.config.kl_coef)
    while state.iteration < state.config.iterations:
        anneal(state)
        responses = generate_responses(state, draw_prompts(state))
        teacher = optimal_logprobs(state, responses, log_z)
        logprobs = forward_logprobs(state.models.actor, *responses.tokens()).sum(dim=1)
        step(state, loss(logprobs, teacher))
        state.iteration += 1
        yield float((logprobs.detach() - teacher).mean())


def step(state: RLHFState, loss: Tensor) -> None:
    """One step of the optimiser on the actor."""
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    gradient_step(list(state.models.actor.parameters()), state.optimizer, 1.0)


def keep_best_texts(state: RLHFState, n: int, count: int) -> list[tuple[Tensor, Tensor]]:
    """`count` responses of the policy, n at a time to each prompt; → (prompt, response) ids of the best."""
    models, prompts, kept = state.models, state.prompts, []
    what = models.actor, models.tokenizer, prompts, count, state.config, state.generators["samples"]
    for some in sample_batches(*what, batch_size=n * len(prompts)):
        best = state.score(some.texts).view(-1, len(prompts)).argmax(dim=0)
        rows = some.tokens().rows(best * len(prompts) + torch.arange(len(prompts)))
        kept += [(q[m], a[c]) for q, m, a, c in zip(*rows, strict=True)]
    return kept


def fine_tune(state: RLHFState, kept: list[tuple[Tensor, Tensor]]) -> None:
    """SFT on (prompt, response) ids, the rate annealed to 0."""
    steps = EPOCHS * len(kept) // ROWS
    for k in range(steps):
        state.optimizer.param_groups[0]["lr"] = RATE * (1 - k / steps)
        rows = torch.randperm(len(kept), generator=state.generators["minibatches"])[:ROWS]
        some = [kept[i] for i in rows]
        ids = pad_sequence([torch.cat(pair) for pair in some], batch_first=True)
        starts, ends = torch.tensor([[len(q), len(q) + len(a)] for q, a in some]).T[:, :, None]
        place = torch.arange(ids.shape[1])
        step(
            state,
            sft_loss(state.models.actor, ids, place < ends, (starts <= place) & (place < ends)),
        )


def train(job: Job, folder: Path) -> Run:
    """A run in its own way, of which only what is measured at the end is kept."""
    state = start_run(job.config, measures=MEASURES)
    if job.kind == "optimal":
        for _ in distil(state, check_distillation_loss.exercise.right):
            advance(1)
    else:
        fine_tune(state, keep_best_texts(state, 10, job.config.iterations * BATCH))
        advance(job.config.iterations)
    return Run(state.config, final=measure(state, state.models.actor, 40)[0])


class DistillingOptions(StudyOptions, name="distilling"):
    """Best of n in the weights: SFT on the best of n, distillation from π*; as many responses as PPO's."""

    def jobs_on(self, seed: int) -> list[Job]:
        """The same settings for both."""
        how = {"batch_size": BATCH, "minibatch_size": BATCH, "learning_rate": RATE}
        return [Job(kind, self.config(seed, kl_coef=KL_COEF, **how), train) for kind in KINDS]


load_distilling = loader("distilling")
