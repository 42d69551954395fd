"""Where the course has the functions that learners write, and how one of theirs takes its place."""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from pkgutil import resolve_name
from typing import NamedTuple
from unittest.mock import patch

import torch

from helpers.kit.exercise import Exercise
from helpers.kl import kl_estimate
from helpers.sampling import Responses, SampledText, decode


def same(own: Callable, course: Callable) -> Callable:
    """`own` with the course's arguments. Where an option is asked for that it lacks, the course's runs."""
    names, signature = list(inspect.signature(own).parameters), inspect.signature(course)

    @wraps(course)
    def stand_in(*given, **more):
        call = signature.bind(*given, **more)
        call.apply_defaults()
        asked = call.arguments
        usual = all(
            name in names or inspect.unwrap(x) is signature.parameters[name].default
            for name, x in asked.items()
        )
        known = usual and not any(asked[name] is None for name in names if name in asked)
        return own(**{name: asked[name] for name in names}) if known else course(*given, **more)

    return stand_in


def with_stats(own: Callable, course: Callable) -> Callable:
    """A loss with the course's statistics beside it."""
    plain = same(own, course)

    @wraps(course)
    def stand_in(*given, **more):
        loss, stats = course(*given, **more)
        found = plain(*given, **more)
        return (loss if isinstance(found, tuple) else found), stats

    return stand_in


def forward_in_parts(own: Callable, course: Callable) -> Callable:
    """`forward_logprobs(policy, ids, mask, length, temperature)` with prompts and responses apart."""

    @wraps(course)
    def stand_in(policy, queries, query_mask, responses, response_mask, *, temperature=1.0):
        ids, mask = torch.cat([queries, responses], 1), torch.cat([query_mask, response_mask], 1)
        logprobs = own(policy, ids, mask, responses.shape[1], temperature)
        return torch.where(response_mask, logprobs, 0.0)

    return stand_in


def forward_whole(course: Callable) -> Callable:
    """The course's forward with prompts and responses in one row, as the exercise has them."""

    def forward_logprobs(policy, ids, mask, length, temperature):
        parts = ids[:, :-length], mask[:, :-length], ids[:, -length:], mask[:, -length:]
        return course(policy, *parts, temperature=temperature)

    return forward_logprobs


@contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """Draws of torch's own random state come from this generator, which goes on after them."""
    if generator is None:
        yield
        return
    cuda = generator.device.type == "cuda"
    random = torch.cuda if cuda else torch
    with torch.random.fork_rng(devices=[generator.device] if cuda else []):
        random.set_rng_state(generator.get_state())
        yield
        generator.set_state(random.get_rng_state())


def sampler(own: Callable, course: Callable) -> Callable:
    """`sample_with_cache(actor, tokenizer, prompts, config)` as the course's `sample_responses`."""

    @wraps(course)
    def stand_in(policy, tokenizer, prompts, config, generator=None):
        with drawing_from(generator):
            ids, mask, logprobs = own(policy, tokenizer, list(prompts), config)
        T = logprobs.shape[1]
        parts = ids[:, :-T], mask[:, :-T], ids[:, -T:], mask[:, -T:]
        whole = decode(tokenizer, *parts)
        answers = decode(tokenizer, ids[:, :0], mask[:, :0], *parts[2:])
        texts = list(map(SampledText, whole, prompts, answers))
        return Responses(*parts, torch.where(parts[3], logprobs, 0.0), texts)

    return stand_in


def sample_whole(course: Callable) -> Callable:
    """The course's sampler with prompt and response in one row, as the exercise has them."""

    def sample_with_cache(actor, tokenizer, prompts, config):
        found = course(actor, tokenizer, prompts, config)
        ids, mask = (torch.cat(pair, 1) for pair in (found.tokens()[::2], found.tokens()[1::2]))
        return ids, mask, found.logprobs

    return sample_with_cache


def update_step(own: Callable, course: Callable) -> Callable:
    """An update whose only metric is the KL per response before it."""

    @wraps(course)
    def stand_in(policy, value_network, rollout, optimizer, config, generator=None, reference=None):
        kl = kl_estimate(rollout.logprobs, rollout.ref_logprobs) * rollout.response_mask
        with drawing_from(generator):
            own(policy, value_network, rollout, optimizer, config)
        return {"kl": float(kl.sum(1).mean())}

    return stand_in


def loss_alone(course: Callable) -> Callable:
    """The course's loss without its statistics."""

    @wraps(course)
    def loss(*given):
        return course(*given)[0]

    return loss


class Place(NamedTuple):
    """The course's function that an exercise stands for, and how their interfaces meet."""

    name: str  # module:function, below helpers
    stand_in: Callable = same  # (own, course) → the own function with the course's interface
    as_exercise: Callable = lambda course: course  # the course's with the exercise's interface

    @property
    def course(self) -> Callable:
        """The course's function as it is now."""
        return resolve_name(f"helpers.{self.name}")


OUTSIDE = ("helpers.kit", "helpers.lessons")  # they judge by the course's functions
PLACES = {
    "response_mask": Place("rollouts:response_mask"),
    "position_ids": Place("rollouts:position_ids"),
    "forward_logprobs": Place("rollouts:forward_logprobs", forward_in_parts, forward_whole),
    "sample_with_cache": Place("sampling:sample_responses", sampler, sample_whole),
    "kl_estimate": Place("kl:kl_estimate"),
    "shape_rewards": Place("kl:shape_rewards"),
    "compute_gae": Place("gae:compute_gae"),
    "masked_var": Place("whitening:masked_var"),
    "whiten_advantages": Place("whitening:whiten_advantages"),
    "explained_variance": Place("ppo:explained_variance"),
    "policy_loss": Place("ppo:policy_loss", with_stats, loss_alone),
    "value_loss": Place("ppo:value_loss", with_stats, loss_alone),
    "ppo_update_step": Place("ppo:ppo_update_step", update_step),
    "bradley_terry_loss": Place("reward_model:bradley_terry_loss"),
    "rloo_advantages": Place("groups:rloo_advantages"),
    "grpo_advantages": Place("groups:grpo_advantages"),
    "implicit_reward": Place("direct:implicit_reward"),
    "dpo_loss": Place("direct:dpo_loss", with_stats, loss_alone),
    "pass_at_k": Place("groups:pass_at_k"),
}


@cache
def course_version(exercise: Exercise) -> Callable:
    """The course's function for an exercise: its helper where there is one, else the solution."""
    place = PLACES.get(exercise.name)
    return place.as_exercise(place.course) if place else exercise.right


@contextmanager
def in_place(functions: dict[str, Callable]) -> Iterator[dict[str, int]]:
    """Put own functions in the place of the course's wherever helpers use them.

    → calls by name, also of the parts that are still the course's.
    """
    courses = {name: place.course for name, place in PLACES.items()}
    calls = dict.fromkeys(PLACES, 0)
    modules = [module for name, module in sys.modules.items() if name.startswith("helpers.")]
    modules = [module for module in modules if not module.__name__.startswith(OUTSIDE)]
    with ExitStack() as changes:
        for name, course in courses.items():
            own = functions.get(name)
            used = course if own is None else PLACES[name].stand_in(own, course)
            for module in modules:
                for attribute in [k for k, x in vars(module).items() if x is course]:
                    changes.enter_context(
                        patch.object(module, attribute, counting(used, name, calls))
                    )
        yield calls


def counting(function: Callable, name: str, calls: dict[str, int]) -> Callable:
    """The same function; its calls are counted."""

    @wraps(function)
    def counted(*given, **more):
        calls[name] += 1
        return function(*given, **more)

    return counted
