"""The recorded runs: the faults, three at three strengths, four pairs, and healthy runs.

The thresholds of `diagnose` were chosen on seeds 0 to 2, without looking at seeds 3 to 5.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from helpers.config import RLHFConfig
from helpers.lessons.debugging.cases import CASES, PLANTED
from helpers.rollouts import forward_values
from helpers.sampling import Responses
from helpers.state import History, RLHFState, start_run
from helpers.studies.faults import Fault
from helpers.studies.runs import Run, record_run
from helpers.studies.study import WHOLE_RUN_SEED, Job, Study, StudyOptions, loader, record
from helpers.tools.validate import require, require_choice

BETA, ITERATIONS = 0.1, 18
AT_BETA = [Fault(f"healthy_{x:g}", settings={"kl_coef": x}) for x in (0.05, 0.2, 0.3)]
HEALTHY_RUNS = {one.name: one for one in (Fault("healthy"), *AT_BETA)}  # no rule may flag them
SCHEDULE = [0, 1, 3, 8, 18]  # iterations of the snapshots


def healthy_config(seed: int, iterations: int = ITERATIONS) -> RLHFConfig:
    """The settings of the healthy run, into which faults are planted: defaults, 18 iterations."""
    rates = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    return RLHFConfig(kl_coef=BETA, seed=seed, iterations=iterations, device="cpu", **rates)


def rerun(
    case: str | Fault, iterations: int = ITERATIONS, seed: int = 0, follow: Callable | None = None
) -> Run:
    """Train one case: a fault, or a key of `PLANTED`, or "healthy". ValueError: unknown name.

    `follow(records, total)` passes the records on, as `helpers.kit.live.watch` does.
    """
    healthy = healthy_config(seed, iterations=iterations)
    if not isinstance(case, Fault):
        require_choice("case", case, ("healthy", *PLANTED))
        case = (HEALTHY_RUNS | PLANTED)[case]
    state = start_run(case.config(healthy))
    run = Run(state.config, label=case.name)
    with case.in_effect():
        records = (run.history[-1] for _ in record_run(state, run, schedule=SCHEDULE))
        for _ in records if follow is None else follow(records, iterations):
            pass
    return run


def steps_from(function: Callable) -> dict[str, Callable]:
    """Steps 5 and 6 of the loop, `total_rewards` and `estimate_advantages`, both from one function.

    `function(scores, logprobs, ref_logprobs, values, counted, kl_coef, gamma, lam)` gives rewards,
    advantages, returns: [B, T] each. ValueError: it gives something else.
    """
    found = []

    @torch.no_grad()
    def total_rewards(
        state: RLHFState, responses: Responses, scores: Tensor, ref_logprobs: Tensor
    ) -> Tensor:
        critic, config = state.models.critic, state.config
        values = responses.in_parts(lambda *tokens: forward_values(critic, *tokens))
        given = scores, responses.logprobs, ref_logprobs, values, responses.response_mask
        results = function(*given, state.kl_coef, config.gamma, config.lam)
        shapes = [x.shape for x in results] if isinstance(results, (tuple, list)) else None
        wants = f"rewards, advantages, returns of shape {tuple(values.shape)}"
        require(shapes == [values.shape] * 3, "function", f"results {shapes}", wants)
        rewards, *rest = results
        found[:] = values, *rest
        return rewards

    return {"total_rewards": total_rewards, "estimate_advantages": lambda *_: tuple(found)}


def train_repaired(function: Callable, **how) -> Run:
    """Train the clinic's run with this function as steps 5 and 6; `how` as in `rerun`."""
    return rerun(Fault("repaired", wrong=steps_from(function)), **how)


class Clinic(Study):
    """The recorded runs."""

    def histories(self, kind: str, seeds: tuple = (0, 1, 2)) -> list[History]:
        """Histories of one kind on these seeds."""
        return [run.history for run in self.of_kind(kind, seeds)]

    def healthy(self, seeds: tuple) -> dict[str, History]:
        """Histories of all healthy runs on these seeds, at every β, by name."""
        runs = [run for run in self.runs if run.config.seed in seeds]
        return {run.label: run.history for run in runs if run.kind.startswith("healthy")}


load_clinic = loader("clinic", Clinic)


class ClinicOptions(StudyOptions, name="clinic", seeds=list(range(6)), iterations=ITERATIONS):
    """The clinic: runs with faults, some milder, grosser or in pairs, and healthy runs."""

    def jobs_on(self, seed: int) -> Iterator[Job]:
        """The healthy run, healthy runs at other β, and all that is planted while it trains."""
        config = healthy_config(seed, iterations=self.iterations)
        train = partial(record, evaluated=4, checkpoints=False, schedule=SCHEDULE)
        shown = {(case.kind, case.seeds[0]) for case in CASES}
        for kind, fault in (HEALTHY_RUNS | PLANTED).items():
            whole = seed == WHOLE_RUN_SEED or (kind, seed) in shown
            yield Job(kind, fault.config(config), partial(train, within=fault.in_effect), whole)
