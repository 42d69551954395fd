"""Exercises of lesson 06, the seven steps of a trainer; the loop has a file of its own."""

from collections import Counter
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from helpers.kit.exercise import (
    Seen,
    by_name,
    counted_only,
    expect,
    floats,
    noise,
    prefix_mask,
    sizes,
)
from helpers.kit.judge import checker, exercise
from helpers.kit.logprobs import FORWARD_LOGPROBS as OF_LESSON_01
from helpers.kit.logprobs import cause
from helpers.kit.model_calls import Call, check_call
from helpers.kit.recorded import either_deviation, recorded
from helpers.kit.samplers import LOOK, observe_sampler
from helpers.kit.samplers import cases as sampled
from helpers.kit.updates import cases, cause_update, edges, observe_update

PROMPTS = [f"prompt {i}{' and on' * (i % 4)}" for i in range(40)]


def observe_draws(function, prompts: list[str], size: int) -> Seen:
    """Many draws, and how often each prompt came."""
    draws = [function(prompts, size) for _ in range(600)]
    texts = isinstance(draws[0], (list, tuple)) and all(isinstance(x, str) for x in draws[0])
    expect(texts, "wrong type", "Return a list of prompts, which are texts.", draws[0], prompts[:2])
    counts = Counter(text for draw in draws for text in draw)
    places = [sorted(map(PROMPTS.index, draw)) for draw in draws[:3] if set(draw) <= set(prompts)]
    beside = [[b - a for a, b in zip(x, x[1:], strict=False)].count(1) for x in places]
    share = size / len(prompts)
    even, spread = 600 * share, (600 * share * (1 - share)) ** 0.5
    text = max(prompts, key=lambda text: abs(counts[text] - even))
    says = f"In 600 draws of {size} out of {len(prompts)}, prompt {prompts.index(text)} of the list was drawn"
    says += f" {counts[text]} times; each should be, about {even:.0f} times."
    seen = {
        "number of prompts": {len(draw) for draw in draws},
        "number of different prompts": {len(set(draw)) for draw in draws},
        "prompts of the list only": set(counts) <= set(prompts),
        "a new draw at each call": len({tuple(sorted(draw)) for draw in draws}) > 1,
        "neighbours in the list only": min(beside, default=0) >= max(size - 2, 1),
    }
    if seen["number of different prompts"] == {size} and seen["a new draw at each call"]:
        expect(abs(counts[text] - even) <= 6 * spread, "some prompts more often than others", says)
    return seen


check_draw_prompts = exercise(
    """\
def draw_prompts(prompts, batch_size):
    order = torch.randperm(len(prompts))
    return [prompts[i] for i in order[:batch_size]]
""",
    "batch_size different prompts, at random (step 1; lesson 00)",
    [(PROMPTS, 16), (PROMPTS, 1), (PROMPTS, 40)],
    observe=observe_draws,
)


def whole_texts(calls: list[Call], mask: Tensor) -> None:
    """Wrong: a forward that is given other texts than those so far, their mask or positions."""
    P = mask.shape[1] - len(calls)
    for k, call in enumerate(calls):
        says = f"Forward number {k + 1} is given {call.ids.shape[-1]} columns; prompt and {k} new tokens are"
        says += f" {P + k}. Without a cache the actor has to read the whole text so far each time."
        expect(call.ids.shape[-1] == P + k, "not the whole text", says)
        check_call(call, mask[:, : P + k], "the actor")


def observe_responses(function, words: str, actor, prompts: list[str], config) -> Seen:
    """Judge one rollout."""
    observe_sampler(function, actor, prompts, config, whole_texts)
    return {}


check_generate_responses = exercise(
    """\
@torch.no_grad()
def generate_responses(actor, tokenizer, prompts, config):
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    ids, mask = batch.input_ids, batch.attention_mask.bool()
    running, drawn = torch.ones(len(ids), 1, dtype=torch.bool), []
    while running.any() and len(drawn) < config.response_length:
        positions = mask.cumsum(1) - mask.long()
        logits = actor(ids, attention_mask=mask, position_ids=positions).logits[:, -1]
        logprobs = (logits / config.temperature).log_softmax(-1)
        new = torch.multinomial(logprobs.exp(), 1)
        drawn.append(logprobs.gather(1, new) * running)
        new = torch.where(running, new, tokenizer.pad_token_id)
        ids, mask = torch.cat([ids, new], 1), torch.cat([mask, running], 1)
        running = running & (new != tokenizer.eos_token_id)
    return ids, mask, torch.cat(drawn, 1)
""",
    f"{LOOK} (step 2; lesson 01)",
    sampled,
    observe=observe_responses,
    seconds=60.0,
)


def squeezed(text: str) -> str:
    """The text without blanks: how punctuation is joined does not matter."""
    return "".join(text.split())


def observe_scores(function, ids: Tensor, mask: Tensor) -> Seen:
    """The texts that reach the reward model, and the scores, from a reward without a model."""
    tokenizer, asked = recorded().parts.tokenizer, []

    def reward(texts):
        ok = isinstance(texts, (list, tuple)) and all(isinstance(x, str) for x in texts)
        expect(ok, "not texts", "`reward` takes a list of texts: decode the ids first.")
        asked.extend(texts)
        return torch.tensor([sum(map(ord, squeezed(text))) % 97 / 20 - 2 for text in texts])

    scores = function(reward, tokenizer, ids, mask)
    return {"texts": sorted(map(squeezed, asked)), "scores": scores}


def texts(*rows: int) -> tuple[Tensor, Tensor]:
    """Some of the recorded texts."""
    return recorded().ids[list(rows)], recorded().mask[list(rows)]


check_score_responses = exercise(
    """\
def score_responses(reward, tokenizer, ids, mask):
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    return reward(texts)
""",
    "reward(texts), prompt and response together (step 3; lesson 05)",
    lambda: [texts(0, 1, 2, 3, 4, 5)],
    """\
special tokens scored: Your texts hold special tokens, no words to a reward model: decode with
 skip_special_tokens=True.
- , skip_special_tokens=True
+
responses only: You score the responses alone: the reward model reads prompt and response.
- (ids, skip
+ (ids[:, -18:], skip
whitened scores: You normalised the scores over the batch; the reward model's scores are normalised already.
-     return reward(texts)
+     scores = reward(texts)
+     return (scores - scores.mean()) / scores.std()
""",
    results=("texts", "scores"),
    observe=observe_scores,
    further=lambda: [
        ("two texts are equal", texts(5, 4, 5)),
        ("there is one row", texts(2)),
        ("there are forty rows", texts(*[0, 1, 2, 3, 4] * 8)),
    ],
)

AS_FOLDED = OF_LESSON_01.solution.replace("length:].unsqueeze(-1))", "length:, None])")
check_forward_logprobs = checker(replace(OF_LESSON_01, solution=AS_FOLDED))
PAIR = floats([-1.0, -0.5, -2.0, 3.0]), floats([-1.5, -1.5, -0.5, 1.0])
SHORT = torch.tensor([2.0]), *PAIR, prefix_mask(4, 3), 0.1
NOISE = torch.tensor([1.0, -3.0, 0.5]), -noise(1, 3, 5).abs(), -noise(2, 3, 5).abs()
BATCH = *NOISE, prefix_mask(5, 2, 5, 4), 0.2
LARGE = 80 * NOISE[0], 30 * NOISE[1], 40 * NOISE[2], prefix_mask(5, 2, 5, 4), 2.5

check_total_rewards = exercise(
    """\
def total_rewards(scores, logprobs, ref_logprobs, counted, kl_coef):
    rewards = -kl_coef * (logprobs - ref_logprobs) * counted
    last = counted.sum(1) - 1
    rewards[range(len(scores)), last] += scores
    return rewards
""",
    "−β·(logprobs − ref_logprobs) on counted tokens, + score on the last (step 5; lesson 02)",
    [SHORT, BATCH],
    """\
KL sign: The KL sign is wrong: the policy is paid for drifting. Rewards lose β·(logprobs − ref_logprobs).
- -kl_coef *
+ kl_coef *
the score on a pad: You put the score in the last column, which is padding in rows that end early.
- counted.sum(1) - 1
+ counted.shape[1] - 1
the last penalty is lost: The last token pays its KL as well: add the score to it.
- += scores
+ = scores
""",
    further=[
        ("a response has one token", (*NOISE, prefix_mask(5, 1, 5, 4), 0.2)),
        ("scores and KL are large", LARGE),
        *sizes(BATCH),
    ],
)


def observe_advantages(function, critic, ids, mask, rewards, gamma, lam) -> Seen:
    """Values, returns and advantages where they count; either standard deviation will do."""
    names = "values", "advantages", "returns"
    answer = by_name(names, function(critic, ids, mask, rewards, gamma, lam)).values()
    counted = mask[:, -rewards.shape[1] :]
    values, advantages, returns = (counted_only(x, counted) for x in answer)
    says = "They are data for the update: compute them under torch.no_grad()."
    expect(not any(getattr(x, "requires_grad", False) for x in answer), "gradient kept", says)
    return {
        "values": values,
        "returns": returns,
        "advantages": either_deviation(advantages, counted),
    }


def episode(rows: list[int], tokens: int) -> tuple:
    """A critic, some recorded texts whose responses are cut, and rewards."""
    r = recorded()
    start = int(r.mask[rows].any(0).long().argmax())
    end = r.ids.shape[1] - r.length + tokens
    cut = r.ids[rows, start:end], r.mask[rows, start:end], r.rewards[rows, :tokens]
    return r.shallow.critic, *cut, 0.97, 0.8


check_estimate_advantages = exercise(
    """\
@torch.no_grad()
def estimate_advantages(critic, ids, mask, rewards, gamma, lam):
    length = rewards.shape[1]
    counted = mask[:, -length:]
    positions = mask.cumsum(1) - mask.long()
    output = critic(ids, attention_mask=mask, position_ids=positions)
    values = output.logits[:, -length - 1 : -1].squeeze(-1) * counted
    advantages, running, next_value = torch.zeros_like(rewards), 0.0, 0.0
    for t in reversed(range(length)):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        advantages[:, t] = running = delta + gamma * lam * running
        next_value = values[:, t]
    returns = advantages + values
    mean, std = advantages[counted].mean(), advantages[counted].std()
    return values, (advantages - mean) / (std + 1e-8) * counted, returns
""",
    "δ = r + γV' − V, A = δ + γλA', returns = A + V, then whiten A (step 6; lessons 02 and 03)",
    lambda: [episode([0, 2], 6), episode([0, 1, 2, 3, 4, 5], 18)],
    """\
values of the next token: You read the critic at each token; take the value before it, [:, -length - 1 : -1].
- -length - 1 : -1
+ -length:
values of padding: The critic's values on padding enter your sum: what comes after the last token is 0.
- .squeeze(-1) * counted
+ .squeeze(-1)
returns of whitened advantages: You whiten before you form the returns. They are targets in reward units:
 form them first, from the advantages as they are.
-     returns = advantages + values
-     mean, std = advantages[counted].mean(), advantages[counted].std()
-     return values, (advantages - mean) / (std + 1e-8) * counted, returns
+     mean, std = advantages[counted].mean(), advantages[counted].std()
+     advantages = (advantages - mean) / (std + 1e-8) * counted
+     return values, advantages, advantages + values
""",
    results=("values", "returns", "advantages"),
    observe=observe_advantages,
    cause=partial(cause, whose="the critic"),
    further=lambda: [
        ("responses have one token: squeeze() drops its axis", episode([0, 1, 2], 1)),
        ("there is one response: squeeze() drops its axis", episode([3], 12)),
    ],
)

check_update = exercise(
    """\
def update(actor, critic, optimizer, rollout, config):
    parameters = [*actor.parameters(), *critic.parameters()]
    for _ in range(config.num_ppo_epochs):
        for rows in torch.randperm(len(rollout[0])).split(config.minibatch_size):
            ids, mask, old_logprobs, old_values, advantages, returns = (x[rows] for x in rollout)
            length = returns.shape[1]
            counted = mask[:, -length:]
            logprobs = forward_logprobs(actor, ids, mask, length, config.temperature)
            ratio = (logprobs - old_logprobs).exp()
            clipped = ratio.clamp(1 - config.cliprange, 1 + config.cliprange)
            gain = torch.minimum(ratio * advantages, clipped * advantages)
            positions = mask.cumsum(1) - mask.long()
            output = critic(ids, attention_mask=mask, position_ids=positions)
            values = output.logits[:, -length - 1 : -1].squeeze(-1)
            low, high = old_values - config.cliprange_value, old_values + config.cliprange_value
            near = values.clamp(low, high)
            errors = torch.maximum((values - returns).square(), (near - returns).square())
            loss = -gain[counted].mean() + config.vf_coef * 0.5 * errors[counted].mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)
            optimizer.step()
""",
    "−mean min(ρA, clip(ρ)A) + vf_coef·½·mean max((V − R)², (clip(V) − R)²), over counted tokens",
    cases,
    """\
a ratio of 1: Your gradient is that of a ratio of 1. Take exp of the difference of log-probs, and the old
 ones as the rollout has them: computed anew, once or in each minibatch, they hide what has moved.
- (logprobs - old_logprobs)
+ (logprobs - logprobs.detach())
clip without min: You used only the clipped ratio; take the smaller of the two gains.
- torch.minimum(ratio * advantages, clipped * advantages)
+ clipped * advantages
padding in the policy's mean: The policy's loss is averaged over all positions; only counted ones count.
- -gain[counted].mean()
+ -gain.mean()
the stop token is masked out: Stop tokens are left out of the loss: no gradient where stopping was chosen.
- counted = mask[:, -length:]
+ last = mask[:, -length:].sum(1, keepdim=True) - 1
+             counted = mask[:, -length:] & (torch.arange(length) != last)
""",
    results=("gradients of actor and critic",),
    observe=observe_update,
    cause=cause_update,
    further=edges,
    uses={"forward_logprobs": check_forward_logprobs.exercise},
    seconds=30.0,
    advice="Compare the line that it comes from with the formula, factor by factor.",
)

CHECKS = (
    check_draw_prompts,
    check_generate_responses,
    check_score_responses,
    check_forward_logprobs,
    check_total_rewards,
    check_estimate_advantages,
    check_update,
)
STEPS = {check.exercise.name: check.exercise for check in CHECKS}
