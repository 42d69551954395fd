"""Whether what a sampler gives is what the actor would write: form, mask, log-probs, and how likely it is.

A sampler is `sampler(actor, tokenizer, prompts, config)` → ids and mask [B, P + T], log-probs [B, T]. Its
random numbers are its own, so it is judged by what holds for every draw, and by counts (6 deviations).
"""

import copy
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from helpers.kit.exercise import Wrong, expect
from helpers.kit.logprobs import FORWARD_LOGPROBS
from helpers.kit.model_calls import Call, recorded_calls
from helpers.kit.patterns import scaled
from helpers.kit.recorded import recorded, trainer_config
from helpers.rollouts import position_ids

LOOK = "token ~ softmax(logits / T); mask True up to and including the first stop token; log-prob of each"


def cases() -> list[tuple]:
    """(what is special, actor, prompts, config)."""
    r, tokenizer = recorded(), recorded().parts.tokenizer
    prompts = r.parts.prompts

    def settings(temperature: float, length: int):
        return trainer_config(temperature=temperature, response_length=length)

    stops, pads = (inclined_to(x) for x in (tokenizer.eos_token_id, tokenizer.pad_token_id))
    return [
        ("", r.shallow.actor, prompts[:96], settings(0.6, 14)),
        ("the temperature is 5", r.shallow.actor, prompts, settings(5.0, 16)),
        ("the actor may stop at once", stops, prompts[:64], settings(1.0, 24)),
        ("the actor draws padding", pads, prompts[:16], settings(1.0, 6)),
        ("the temperature is 0.02", r.shallow.actor, prompts[:8], settings(0.02, 2)),
        ("all prompts are the same", r.shallow.actor, prompts[:1] * 8, settings(1.0, 12)),
    ]


@cache
@torch.no_grad()
def inclined_to(token: int) -> nn.Module:
    """A copy of the recorded actor that draws this token first with about one half."""
    r, actor = recorded(), copy.deepcopy(recorded().shallow.actor)
    mask = r.mask[:, : -r.length]
    towards, share = actor.lm_head.weight[token], 0.0
    while share < 0.4:
        actor.transformer.ln_f.bias += 0.5 * towards / towards.square().sum()
        given = {"attention_mask": mask, "position_ids": position_ids(mask)}
        logits = actor(r.ids[:, : -r.length], **given).logits[:, -1]
        share = float(logits.softmax(-1)[:, token].mean())
    return actor


Look = Callable[[list[Call], Tensor], None]  # calls of the actor, the mask → raises Wrong


def observe_sampler(sampler: Callable, actor, prompts: list[str], config, look: Look) -> list[Call]:
    """Judge one rollout → the calls of the actor; `look` finds the wrong one where log-probs are wrong."""
    tokenizer = recorded().parts.tokenizer
    with torch.random.fork_rng(devices=[]), recorded_calls(actor) as calls:
        torch.manual_seed(1)
        ids, mask, logprobs = form(
            sampler(actor, tokenizer, list(prompts), config), prompts, config
        )
        if len(set(prompts)) == 1:
            torch.manual_seed(2)
            again, *_ = sampler(actor, tokenizer, list(prompts), config)
            says = "Two calls sample the same, whatever torch's random state: set no seed inside."
            expect(not torch.equal(ids, again), "a seed inside", says)
    T = logprobs.shape[1]
    tokens, counted = ids[:, -T:], mask[:, -T:]
    check_mask(tokens, counted, config.response_length, tokenizer)
    with torch.no_grad():
        given = {"attention_mask": mask, "position_ids": position_ids(mask)}
        logits = actor(ids, **given).logits[:, -T - 1 : -1]
    every = (logits / config.temperature).log_softmax(-1)
    right = every.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    says = "All responses are the same: each row draws its own tokens, from its own distribution."
    same = (tokens == tokens[:1]) | ~(counted & counted[:1])
    expect(not bool(same.all()) or config.temperature < 0.1, "one draw for all rows", says)
    likeliest = bool((right == every.amax(-1))[counted].all()) and config.temperature > 0.1
    says = "Each token is the likeliest one. Draw it: torch.multinomial(probabilities, 1)."
    expect(not likeliest, "the likeliest token, not a sample", says)
    got = torch.where(counted, logprobs, right).float()
    stop = tokenizer.eos_token_id
    check_share(every[..., stop].exp()[counted], (tokens == stop)[counted], "the stop token is")
    if not torch.allclose(got, right, rtol=0, atol=1e-3):
        few = (~torch.isclose(got, right, 0, 1e-3)).any(1).nonzero().flatten()[:12]  # NaN, too
        name_logprobs(actor, ids[few], mask[few], got[few], right[few], config.temperature)
        look(calls, mask)
        name_columns(got, right, counted)
    check_likely(every[counted], tokens[counted])
    return calls


def form(answer: object, prompts: list[str], config) -> tuple[Tensor, Tensor, Tensor]:
    """The three tensors. Wrong: other shapes or types, or other prompts in front."""
    several = isinstance(answer, (tuple, list)) and len(answer) == 3
    says = "Return three tensors: ids [B, P + T], mask [B, P + T], logprobs [B, T]."
    expect(several and all(isinstance(x, Tensor) for x in answer), "wrong type", says)
    ids, mask, logprobs = answer
    tokenizer, limit = recorded().parts.tokenizer, config.response_length
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    given = batch.attention_mask.bool()
    P = given.shape[1]
    T = ids.shape[1] - P if ids.dim() == 2 else 0
    alone = " Give the prompts, too, in front." if T + P in (limit, limit + 1) else ""
    says = (
        f"ids have shape {tuple(ids.shape)}: the {P} prompt tokens, then 1 to {limit} more.{alone}"
    )
    expect(1 <= T <= limit, "too long" if T > limit else "wrong shape", says)
    says = f"ids are {ids.dtype}, the mask {mask.dtype}: they should be int64 and bool."
    expect((ids.dtype, mask.dtype) == (torch.long, torch.bool), "wrong dtype", says)
    shapes = tuple(ids.shape), tuple(mask.shape), tuple(logprobs.shape)
    wants = (len(prompts), P + T), (len(prompts), P + T), (len(prompts), T)
    expect(shapes == wants, "wrong shape", "One mask for both parts, one log-prob for each response token.",
           shapes, wants)  # fmt: skip
    right = torch.equal(mask[:, :P], given.flip(1)) and not bool(given.all())
    says = "Prompts are padded on the right: between prompt and response there would be padding."
    expect(not right or torch.equal(given, given.flip(1)), "prompts padded right", says)
    same = torch.equal(mask[:, :P], given) and torch.equal(
        ids[:, :P][given], batch.input_ids[given]
    )
    says = "In front, ids and mask should be the tokenizer's input_ids and attention_mask, padded left."
    expect(same, "other prompts", says)
    says = "Your logprobs carry a gradient. They are data for the update: sample under torch.no_grad()."
    expect(not logprobs.requires_grad, "gradient kept", says)
    return ids, mask, logprobs


def check_mask(tokens: Tensor, counted: Tensor, limit: int, tokenizer) -> None:
    """True up to and including the first stop token, padding after it, and nobody cut off early."""
    stops, pad = tokens == tokenizer.eos_token_id, tokenizer.pad_token_id
    right = stops.long().cumsum(1) - stops.long() == 0
    missing, row = right & ~counted, int((counted != right).any(1).long().argmax())
    case = counted[row].long().tolist(), right[row].long().tolist()
    says = "The mask is True up to and including the first stop token (an action, too), and False after it."
    expect(not bool((counted & ~right).any()), "counts on after the stop token", says, *case)
    expect(not bool((missing & stops).any()), "the stop token is masked out", says, *case)
    says = "Your mask leaves out a token that was drawn while its row was running (padding may be drawn, too)"
    says += ", or ends a row whose ids have no stop token. What is drawn stands in ids, and counts."
    expect(not bool(missing.any()), "a drawn token does not count", says, *case)
    says = f"Sampling ended after {tokens.shape[1]} tokens, though a row was running; the limit is {limit}."
    ended = bool(stops.any(1).all()) or tokens.shape[1] == limit
    expect(ended, "ends too early", says)
    says = "All rows have stopped, and the last columns are padding in all: end the loop when no row runs."
    expect(bool(counted[:, -1].any()), "runs on after all have stopped", says)
    row = int((~counted & (tokens != pad)).any(1).long().argmax())
    says = "Once a row has stopped, append pad_token_id: the reward model reads the text of all of ids."
    filled = tokens[row][~counted[row]]
    expect(
        bool((filled == pad).all()), "not padded after the stop token", says, tokens[row].tolist()
    )


def name_logprobs(actor, ids, mask, got, right, temperature: float) -> None:
    """Wrong: a known mistake of `forward_logprobs` gives these log-probs, or another temperature does."""
    exercise, T = FORWARD_LOGPROBS, got.shape[1]
    known = [(one.name, one.says, exercise.edited(one), temperature) for one in exercise.mistakes
             if one.name != "no temperature"]  # which the sampler has used to draw  # fmt: skip
    for other in (0.5, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0):
        says = f"Your log-probs are those at temperature {other}; config.temperature is {temperature}. Are"
        says += " the logits divided by it before the softmax that you keep?"
        known.append(("another temperature", says, exercise.right, other))
    for name, says, function, setting in known:
        with torch.no_grad():
            made = torch.where(mask[:, -T:], function(actor, ids, mask, T, setting), right)
        expect(not torch.allclose(made, got, rtol=0, atol=1e-3), name, says)


def name_columns(got: Tensor, right: Tensor, counted: Tensor) -> None:
    """Wrong: log-probs with a factor, none too small, or others than those of what was drawn."""
    far = counted & (right < -0.1)  # near 0 a quotient is rounding
    if found := scaled([(got[far], right[far])]):
        raise Wrong(found[0], f"Look at the log-probs that you keep. {found[1]}")
    says = "No log-prob is too small and some are too large: is a token never drawn (top-k, top-p)?"
    expect(not bool((got >= right - 1e-3).all()), "some tokens are never drawn", says)
    row, t = (~torch.isclose(got, right, 0, 1e-3)).nonzero()[0].tolist()
    says = f"At {[row, t]} you have {float(got[row, t]):.4g}; the actor says {float(right[row, t]):.4g}"
    says += " of what was drawn (log-softmax of logits / temperature)."
    raise Wrong("log-probs of the tokens drawn", says)


def check_share(p: Tensor, came: Tensor, what: str) -> None:
    """Wrong: an event of these probabilities came far more or less often than it should."""
    even, spread = float(p.sum()), float((p * (1 - p)).sum().sqrt())
    says = f"Of {len(p)} tokens {what} {int(came.sum())} times, where about {even:.0f} are right. Is the"
    says += " temperature used for both? Is something never drawn, by top-k (in generate it is 50) or top-p?"
    expect(abs(int(came.sum()) - even) <= 6 * spread + 3, "drawn from another distribution", says)


def check_likely(every: Tensor, tokens: Tensor) -> None:
    """Wrong: tokens are not drawn from these log-probs: [n, V], [n]."""
    p, order = every.exp().sort(-1, descending=True)
    above = p.cumsum(-1) - p  # how likely the likelier tokens are together
    rank = (order == tokens.unsqueeze(-1)).long().argmax(-1)
    mine = above.gather(-1, rank.unsqueeze(-1)).squeeze(-1)
    for share in (0.5, 0.8, 0.9, 0.95):
        tail = (p * (above > share)).sum(-1)
        check_share(tail, mine > share, f"one beyond the likeliest {share:.0%} is drawn")
