"""Notebook 06, steps 1 and 2: draws are judged by what must hold for every draw.

Sampling has random numbers of its own. It is judged by its masks, by the log-probs of what it drew,
and by whether the draws are as likely as the distribution says.
"""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.trainer.course_steps import trainer_config
from helpers.checks.trainer.inputs import Seen, Wrong, ask, expect, no_graph, recorded
from helpers.checks.trainer.logprob_mistakes import all_logprobs, picked
from helpers.checks.trainer.mistakes import MISTAKES


def observe_prompts(function: Callable) -> Seen:
    """Three draws of 16 out of 40."""
    prompts, size = [f"prompt {i}" for i in range(40)], 16
    draws = [ask(function, list(prompts), size) for _ in range(3)]
    for draw in draws:
        ok = isinstance(draw, (list, tuple)) and all(isinstance(x, str) for x in draw)
        expect(ok, "wrong type", "Return a list of prompts, which are texts.", draw, prompts[:2])
        says = f"You return {len(draw)} prompts; batch_size is {size}."
        expect(len(draw) == size, "another number", says)
        says = "You return texts that are not among the prompts."
        expect(set(draw) <= set(prompts), "other texts", says, draw[:3], prompts[:3])
        says = f"All {size} prompts of a batch are the same one: the same index is taken each time."
        expect(len(set(draw)) > 1, "one prompt in every place", says)
        says = "A prompt comes twice in a batch. Is it drawn with replacement, or the same index taken again?"
        says += " Take each of the first batch_size of a random permutation."
        expect(
            len(set(draw)) == size, "twice in a batch, as with replacement", says, sorted(draw)[:4]
        )
    says = "The same prompts come at each call, so most are never seen. Draw anew."
    expect(len({tuple(sorted(d)) for d in draws}) > 1, "always the same prompts", says)
    says = "The prompts of each batch are neighbours in the list: is only the first one drawn, or none? Draw"
    says += " each by itself: torch.randperm."
    expect(not all(neighbours(prompts, draw) for draw in draws), "neighbours only", says)
    check_even(function, [f"{text}{' and on' * (i % 4)}" for i, text in enumerate(prompts)], size)
    for some in (1, len(prompts)):
        draw = ask(function, list(prompts), some)
        says = (
            f"Right for {size} of {len(prompts)}; asked for {some} you return {len(draw)} prompts,"
        )
        says += f" {len(set(draw))} of them different."
        expect(len(draw) == len(set(draw)) == some, "another number", says)
    return {}


def check_even(function: Callable, prompts: list[str], size: int, draws: int = 600) -> None:
    """Wrong: over many draws a prompt is drawn far more or less often than the others (6 std)."""
    counts = Counter(text for _ in range(draws) for text in ask(function, list(prompts), size))
    share = size / len(prompts)
    even, limit = draws * share, 6 * (draws * share * (1 - share)) ** 0.5
    text = max(prompts, key=lambda text: abs(counts[text] - even))
    says = f"In {draws} draws of {size} out of {len(prompts)}, prompt {prompts.index(text)} of the list"
    says += f" was drawn {counts[text]} times; each should be, about {even:.0f} times."
    expect(abs(counts[text] - even) < limit, "some prompts more often than others", says)


def neighbours(prompts: list[str], draw: list[str]) -> bool:
    """Whether the drawn prompts stand side by side, the last one beside the first."""
    places = {prompts.index(text) for text in draw}
    return sum((place + 1) % len(prompts) not in places for place in places) == 1


# --- 2: responses ---------------------------------------------------------------------------------


def observe_sampling(function: Callable) -> Seen:
    """128 responses, not at temperature 1: form, masks, log-probs of what was drawn, likelihood."""
    r = recorded()
    config = trainer_config(temperature=0.6, response_length=14)  # far from 1, so that it shows
    prompts, tokenizer = r.parts.prompts[:128], r.parts.tokenizer
    check_answer(
        ask(function, r.parts.actor, tokenizer, prompts, config), r.parts.actor, prompts, config
    )
    return {}


def check_answer(answer: object, actor, prompts: list[str], config) -> None:
    """Wrong: what a sampler gave is not what the actor would write, or not in the form asked for."""
    tokenizer = recorded().parts.tokenizer
    says = "Return three tensors: ids [B, P + T], mask [B, P + T], logprobs [B, T]."
    ok = isinstance(answer, (tuple, list)) and len(answer) == 3
    expect(ok and all(isinstance(x, Tensor) for x in answer), "wrong type", says)
    ids, mask, logprobs = answer
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    P = batch.input_ids.shape[1]
    check_form(ids, mask, logprobs, P, config.response_length)
    check_prompts(ids, mask, batch)
    T = ids.shape[1] - P
    check_mask(ids[:, P:], mask.bool()[:, P:], T, config.response_length, tokenizer.eos_token_id)
    check_padding(ids[:, P:], mask.bool()[:, P:], tokenizer)
    no_graph(logprobs=logprobs)
    check_drawn(actor, ids, mask.bool(), logprobs, config.temperature)


def check_form(ids: Tensor, mask: Tensor, logprobs: Tensor, P: int, limit: int) -> None:
    """Shapes that fit each other."""
    T = ids.shape[1] - P if ids.dim() == 2 else 0
    says = f"ids have shape {tuple(ids.shape)}: the {P} prompt tokens, then 1 to {limit} more."
    alone = ids.dim() == 2 and ids.shape[1] in (limit, limit + 1) and ids.shape == logprobs.shape
    if alone:
        says = f"ids have shape {tuple(ids.shape)}, as the logprobs: these are the responses alone. Give the"
        raise Wrong("wrong shape", f"{says} {P} tokens of the prompts, too, in front.")
    name = "too long" if T > limit else "wrong shape"
    expect(ids.dim() == 2 and 1 <= T <= limit, name, says)
    expect(ids.dtype == torch.long, "wrong dtype", f"ids are {ids.dtype}; token ids are int64.")
    says = f"mask has shape {tuple(mask.shape)}, ids {tuple(ids.shape)}: one mask for both parts."
    expect(mask.shape == ids.shape, "wrong shape", says)
    says = (
        f"The mask is {mask.dtype}; make it boolean, since x[mask] takes whole numbers for indices."
    )
    expect(mask.dtype == torch.bool, "wrong dtype", says)
    says = f"logprobs have shape {tuple(logprobs.shape)}; one per response token: {len(ids), T}."
    expect(tuple(logprobs.shape) == (len(ids), T), "wrong shape", says)


def check_prompts(ids: Tensor, mask: Tensor, batch) -> None:
    """The prompts stand in front, padded left."""
    P, given = batch.input_ids.shape[1], batch.attention_mask.bool()
    counted = mask[:, :P].bool()
    says = "Prompts are padded on the right: between prompt and response there would be padding."
    expect(not _right_padded(counted, given), "prompts padded right", says)
    says = "In front, the mask should be the tokenizer's attention_mask: False on left padding."
    expect(torch.equal(counted, given), "prompt's mask", says)
    same = torch.equal(ids[:, :P][given], batch.input_ids[given])
    expect(same, "other prompts", "In front, ids should be the tokenizer's input_ids.")


def _right_padded(counted: Tensor, given: Tensor) -> bool:
    return torch.equal(counted, given.flip(1)) and not torch.equal(counted, given)


def check_mask(tokens: Tensor, counted: Tensor, T: int, limit: int, stop: int) -> None:
    """True up to and including the first stop token, and nobody is cut off early."""
    is_stop = (tokens == stop).long()
    # what was drawn after a stop token is padding, whatever its id
    right = is_stop.cumsum(1) - is_stop == 0
    if torch.equal(counted, right):
        ended = is_stop.bool().any(1)
        says = (
            f"Sampling ended after {T} tokens though some response had not: the limit is {limit}."
        )
        return expect(bool(ended.all()) or T == limit, "ends too early", says)
    row = int((counted != right).any(1).nonzero()[0])
    case = counted[row].long().tolist(), right[row].long().tolist()
    says = "The stop token is masked out. It is an action too, or the model never learns to stop."
    expect(
        not torch.equal(counted, right & (tokens != stop)),
        "the stop token is masked out",
        says,
        *case,
    )
    says = "Everything counts, also what follows a stop token."
    expect(not bool(counted.all()), "counts on after the stop token", says, *case)
    says = "Your mask is True one position past the stop token."
    late = torch.cat([torch.ones_like(right[:, :1]), right[:, :-1]], 1)
    expect(not torch.equal(counted, late), "one position too many", says, *case)
    says = "True and False are exchanged in the response's mask."
    expect(not torch.equal(counted, ~right), "mask upside down", says, *case)
    restarts = counted[row, 1:] & ~counted[row, :-1]
    says = "Your mask turns True again after a False: a response that has stopped stays stopped."
    expect(not bool(restarts.any()), "the mask starts again", says, *case)
    says = "Your mask ends a response whose ids have no stop token. If it was drawn, keep it: it is an action"
    says += " too, so it stands in ids and counts; padding begins after it."
    dropped = not bool(is_stop[row].any())
    expect(not dropped, "ended without a stop token", says, *case)
    says = "The response's mask should be True up to and including the first stop token."
    raise Wrong("the response's mask", says, *case)


def check_padding(tokens: Tensor, counted: Tensor, tokenizer) -> None:
    """After the stop token stands padding: neither words nor the stop token again."""
    pad, stop = tokenizer.pad_token_id, tokenizer.eos_token_id
    rows = (~counted & (tokens != pad)).any(1).nonzero()
    if not len(rows):
        return
    row = int(rows[0])
    says = (
        "You fill rows that have stopped with the stop token. It hides there, but the text asks for"
    )
    says += " pad_token_id: whoever looks for the end in the ids finds many."
    stops = bool((tokens == stop)[~counted & (tokens != pad)].all())
    expect(not stops, "padded with the stop token", says, tokens[row].tolist())
    says = "After the stop token stand other tokens than pad_token_id. The mask hides them from the losses,"
    says += " but the reward model may read them. Once a response has stopped, append pad_token_id."
    right = torch.where(counted[row], tokens[row], pad).tolist()
    raise Wrong("not padded after the stop token", says, tokens[row].tolist(), right)


@torch.no_grad()
def check_drawn(actor, ids: Tensor, mask: Tensor, logprobs: Tensor, temperature: float) -> None:
    """The log-probs are those of the tokens drawn, and the tokens are drawn from them."""
    T = logprobs.shape[1]
    counted, tokens = mask[:, -T:], ids[:, -T:]
    every = all_logprobs(actor, ids, mask, temperature)
    drawn = every[:, -T - 1 : -1]
    expected = picked(drawn, tokens)
    likely = drawn.amax(-1)
    says = "All responses are the same, though their prompts are not: each row draws its own token, from its"
    says += " own distribution."
    same = (tokens == tokens[:1]) | ~(counted & counted[:1])
    expect(not bool(same.all()), "one draw for all rows", says)
    greedy = bool((expected == likely)[counted].all())
    says = "Each token is the likeliest one. Draw it: torch.multinomial(probabilities, 1)."
    expect(not greedy, "the likeliest token, not a sample", says)
    got = torch.where(counted, logprobs.to(expected.dtype), expected)
    if not torch.allclose(got, expected, rtol=0, atol=1e-3):
        name_drawn(actor, ids, mask, got, expected, temperature, counted)
    # the sum of log p(drawn) + entropy has mean 0 and a known variance if p is what was drawn from
    p = drawn.exp()
    entropy = -(p * drawn.clamp(min=-1e9)).sum(-1)
    variance = (p * (drawn + entropy.unsqueeze(-1)).square()).sum(-1)
    z = (expected + entropy)[counted].sum() / variance[counted].sum().sqrt()
    says = (
        "The log-probs are right, but the tokens are not drawn from that distribution: they are too"
    )
    says += f" {'unlikely' if z < 0 else 'likely'} under it. Is the temperature used for both?"
    expect(abs(float(z)) < 6, "drawn from another distribution", says)
    check_tail(drawn[counted], tokens[counted])


def check_tail(drawn: Tensor, tokens: Tensor) -> None:
    """Wrong: unlikely tokens are drawn far less often than they should be (6 std). Log-probs [n, V], [n]."""
    p, order = drawn.exp().sort(-1, descending=True)
    above = p.cumsum(-1) - p  # how likely the tokens are together that are likelier than this one
    rank = (order == tokens.unsqueeze(-1)).long().argmax(-1)
    for share in (0.5, 0.8, 0.9, 0.95, 0.99):
        tail = (p * (above > share)).sum(-1)
        even, spread = tail.sum(), (tail * (1 - tail)).sum().sqrt()
        seen = (above.gather(-1, rank.unsqueeze(-1)).squeeze(-1) > share).sum()
        says = f"Of {len(tokens)} tokens {int(seen)} are drawn from the unlikely tail, beyond the likeliest"
        says += f" {share:.0%}; there should be about {even:.0f}. Is that tail cut off (top-k, nucleus)?"
        expect(bool(seen > even - 6 * spread), "the unlikely tail is never drawn", says)


def name_shape_of_slip(got: Tensor, expected: Tensor, tokens: Tensor, counted: Tensor) -> None:
    """Raise `Wrong` where log-probs are wrong at the stop tokens only, or moved by one column."""
    off = (got - expected).abs() > 1e-3
    after = torch.cat([counted[:, 1:], torch.zeros_like(counted[:, :1])], 1)
    last = counted & ~after
    says = "The log-prob of the stop token is 0 in yours, all others are right: it was drawn, so its own"
    says += " belongs there. Is `running` updated before it is stored?"
    stop = recorded().parts.tokenizer.eos_token_id
    cleared = bool((off <= last).all() and (got[off] == 0).all() and (tokens[off] == stop).all())
    expect(not cleared, "the stop token's log-prob is cleared", says)
    both = counted[:, 1:] & counted[:, :-1]
    late = (got[:, 1:] - expected[:, :-1])[both].abs().max() < 1e-3
    says = "Your log-probs are right, but one column too late: store each with its own token."
    expect(not bool(late), "shifted in time", says)
    early = (got[:, :-1] - expected[:, 1:])[both].abs().max() < 1e-3
    says = "Your log-probs are right, but one column too early: store each with its own token."
    expect(not bool(early), "shifted in time", says)


def name_drawn(actor, ids, mask, got, expected, temperature: float, counted: Tensor) -> None:
    """Raise `Wrong` with the likely reason for log-probs that are not those of the tokens drawn."""
    T = expected.shape[1]
    wrong = ((got - expected).abs() > 1e-3).any(1).nonzero().flatten()
    few = wrong[:12]  # enough to tell well-known mistakes apart
    given = (actor, ids[few], mask[few], T, temperature)
    for mistake in MISTAKES["forward_logprobs"]:
        made = mistake.wrong(*given)
        if made.shape == got[few].shape and torch.allclose(
            torch.where(counted[few], made, expected[few]), got[few], rtol=0, atol=1e-3
        ):
            raise Wrong(mistake.name, mistake.says)
    for other in (0.5, 0.6, 0.7, 0.9, 1.2, 1.5, 2.0):
        made = picked(all_logprobs(actor, ids, mask, other)[:, -T - 1 : -1], ids[:, -T:])
        says = (
            f"Your log-probs are those at temperature {other}; config.temperature is {temperature}"
        )
        says += " here, since the check has settings of its own."
        near = torch.allclose(torch.where(counted, made, expected), got, rtol=0, atol=1e-3)
        expect(not near, "temperature written in", f"{says} Is a number written in?")
    name_shape_of_slip(got, expected, ids[:, -T:], counted)
    first = (got[:, 0] - expected[:, 0]).abs().max() < 1e-3
    if first and T > 1:
        says = "The first token's log-probs are right, the later ones are not. Is each forward given all"
        says += " of the text so far, with its mask and positions? (With a cache: the new token's position.)"
        raise Wrong("log-probs wrong after the first token", says)
    row, t = ((got - expected).abs() > 1e-3).nonzero()[0].tolist()
    says = f"Your log-probs are not those of the tokens drawn: at [{row}, {t}] you have"
    says += f" {float(got[row, t]):.4g}, the actor says {float(expected[row, t]):.4g}"
    says += f" (log-softmax of logits / {temperature}, before that token)."
    raise Wrong("log-probs of the tokens", says)
