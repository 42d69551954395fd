"""Exercises of lesson 12: from messages to a rollout, what a run holds in memory, a layer with LoRA."""

from functools import cache

import torch
from torch import Tensor

from helpers.kit.exercise import Seen, by_name, expect, noise
from helpers.kit.judge import exercise
from helpers.kit.model_calls import check_call, recorded_calls
from helpers.kit.patterns import form
from helpers.lessons.real_models.chat_model import chat_actor, chat_tokenizer


def talk(*contents: str, system: str | None = None) -> list[dict]:
    """A conversation of user and assistant in turn, the user last."""
    roles = ["assistant" if (len(contents) - k) % 2 == 0 else "user" for k in range(len(contents))]
    said = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=True)]
    return ([{"role": "system", "content": system}] if system is not None else []) + said


def drawn(*texts: str) -> list[list[int]]:
    """Token ids of answers as a policy draws them: with the stop token, or cut off before it."""
    return [chat_tokenizer()(text, add_special_tokens=False)["input_ids"] for text in texts]


@cache
def rollouts() -> list[tuple]:
    """The probes: one conversation, two, three, with answers that end and answers that were cut off."""
    asked = [
        ([talk("my cat is ill .")], drawn("i am sorry . <end>")),
        (
            [talk("my dog is ill ."), talk("how are you ?", system="be kind")],
            drawn("get well soon . <end>", "fine , how are you"),
        ),
        (
            [
                talk("i lost the match ."),
                talk("how are you ?", "fine , and you ?", "so so .", system="be kind"),
                talk("why ?"),
            ],
            drawn("what a pity .", "why ? <end>", "<end>"),
        ),
    ]
    return [(chat_tokenizer(), chat_actor(), *one) for one in asked]


TENSORS = ("prompts' ids", "prompts' mask", "responses' ids", "responses' mask", "log-probs")


def rollout_seen(function, tokenizer, actor, conversations, answers) -> Seen:
    """What the prompts read as, the five tensors, and whether the padding has log-probs."""
    seen = by_name(TENSORS, function(tokenizer, actor, conversations, answers))
    ids, mask, logprobs = (seen[name] for name in ("prompts' ids", "responses' mask", "log-probs"))
    text = as_text(tokenizer, ids) if isinstance(ids, Tensor) else ids
    seen = {"prompts as text": text} | seen
    if isinstance(mask, Tensor) and isinstance(logprobs, Tensor) and mask.shape == logprobs.shape:
        seen["log-probs"] = torch.where(mask.bool(), logprobs, 0.0)
        seen["log-probs on padding"] = logprobs[~mask.bool()].abs().sum()
    return seen


def actor_given(function, *given: object) -> None:
    """Wrong: prompts and responses are right, and the actor was given another mask or other positions."""
    with recorded_calls(given[1]) as calls:
        mine = function(*given)[:4]
    *right, _ = check_chat_rollout.exercise.right(*given)
    if all(map(torch.equal, mine, right)):
        for call in calls:
            check_call(call, torch.cat([right[1], right[3]], dim=1), "the actor")


def as_text(tokenizer, ids: Tensor) -> list[str]:
    """Each row decoded, without what it is filled up with."""
    expect(ids.dim() == 2 and not ids.is_floating_point(), "wrong type",
           f"The prompts' ids are token ids, [B, P]; yours: {form(ids)}.")  # fmt: skip
    ends = [(row != tokenizer.pad_token_id).nonzero().flatten().tolist() or [0] for row in ids]
    return [tokenizer.decode(row[at[0] : at[-1] + 1]) for row, at in zip(ids, ends, strict=True)]


check_chat_rollout = exercise(
    """\
def chat_rollout(tokenizer, actor, conversations, answers):
    how = {"tokenize": False, "add_generation_prompt": True}
    texts = [tokenizer.apply_chat_template(talk, **how) for talk in conversations]
    padding = {"padding": True, "padding_side": "left", "return_tensors": "pt"}
    encoded = tokenizer(texts, add_special_tokens=False, **padding)
    query, query_mask = encoded["input_ids"], encoded["attention_mask"].bool()
    width, pad = max(map(len, answers)), tokenizer.pad_token_id
    response = torch.tensor([row + [pad] * (width - len(row)) for row in answers])
    response_mask = torch.arange(width) < torch.tensor([[len(row)] for row in answers])
    ids = torch.cat([query, response], dim=1)
    mask = torch.cat([query_mask, response_mask], dim=1).long()
    with torch.no_grad():
        logits = actor(
            input_ids=ids, attention_mask=mask, position_ids=mask.cumsum(1) - mask
        ).logits
    logprobs = logits[:, query.shape[1] - 1 : -1].float().log_softmax(-1)
    logprobs = logprobs.gather(-1, response[..., None])[..., 0]
    return query, query_mask, response, response_mask, torch.where(response_mask, logprobs, 0.0)
""",
    "the template with the generation prompt, BOS once, padded left; drawn ids padded right, every drawn"
    " token counts; log softmax(logits[:, P − 1 : −1])[token], 0 on padding",
    rollouts,
    """\
BOS twice: Each prompt begins with BOS twice: the template writes one, and the tokenizer puts another before
 it. Call the tokenizer with add_special_tokens=False.
- texts, add_special_tokens=False,
+ texts,
padded right: Prompts are padded on the right, so pads stand between prompt and answer: padding_side="left".
- "left"
+ "right"
mask made from pad: Your mask is `ids != pad`. Here pad is EOS, and EOS also ends each turn of the prompt:
 these count. Take the tokenizer's attention_mask.
- encoded["attention_mask"].bool()
+ encoded["input_ids"] != tokenizer.pad_token_id
the stop token masked out: Your mask is that of `response != pad`, and pad is EOS: the one real stop token of
 each response does not count, so nothing teaches the model to stop. Count by length.
- torch.arange(width) < torch.tensor([[len(row)] for row in answers])
+ response != pad
those of the next token: Logits at position t are for token t + 1. Begin one earlier, at the prompt's last:
 [:, P − 1 : −1].
- query.shape[1] - 1 : -1
+ query.shape[1] :
""",
    results=("prompts as text", *TENSORS, "log-probs on padding"),
    observe=rollout_seen,
    cause=actor_given,
)


def bytes_seen(function, parameters: int, adapter: int, method: str) -> Seen:
    """How the bytes grow with the model and with the adapter, and how many they are."""

    def count(parameters: int, adapter: int) -> Tensor:
        answer = function(parameters, adapter, method)
        one = isinstance(answer, (int, float)) or (isinstance(answer, Tensor) and answer.dim() == 0)
        expect(one, "wrong type", f"Return one number of bytes; you return {answer!r:.60}.")
        return torch.tensor(float(answer), dtype=torch.float64)

    here, more, wider = count(parameters, adapter), parameters // 10 or 1, adapter // 10 or 1
    return {
        "bytes for each number of the model": (count(parameters + more, adapter) - here) / more,
        "bytes for each number of the adapter": (count(parameters, adapter + wider) - here) / wider,
        "bytes": here,
    }


check_held_bytes = exercise(
    """\
def held_bytes(parameters, adapter, method):
    trained, frozen = 4 + 4 + 8, 4
    if method == "full":
        return float(2 * trained * parameters + frozen * parameters)
    return float(frozen * parameters + 2 * trained * adapter)
""",
    "full: (16 + 16 + 4)·N;  lora: 4·N + (16 + 16)·a",
    [(n, a, how) for n, a in ((10, 3), (135_000, 2_400)) for how in ("full", "lora")],
    """\
gradient of a frozen number: A frozen number has no gradient and no moments: it takes 4 bytes.
- + 8, 4
+ + 8, 8
the reference trained: The reference is frozen: 4 bytes a number, not 16.
- 2 * trained * parameters + frozen * parameters
+ 3 * trained * parameters
LoRA trains everything: Under LoRA the weights have neither gradients nor moments: they take 4·N, and only the
 adapters take 16 a number.
- (frozen * parameters + 2
+ (trained * parameters + 2
LoRA with a copy: Under LoRA one frozen set of weights serves actor, critic and reference, which is the actor
 with its adapter off: 4·N once.
- (frozen * parameters + 2
+ (2 * frozen * parameters + 2
""",
    further=[
        *(
            (
                "the model is as large as a real one: does a count leave 32 bits?",
                (7_000_000_000, 20_000_000, how),
            )
            for how in ("full", "lora")
        ),
        ("there is no adapter", (10, 0, "lora")),
    ],
    results=("bytes for each number of the model", "bytes for each number of the adapter", "bytes"),
    observe=bytes_seen,
)


SQUARE = noise(0, 2, 4), noise(1, 4, 4), noise(2, 2, 4), noise(3, 4, 2), 4.0
FULL = noise(4, 3, 5), noise(5, 5, 5), noise(6, 5, 5), noise(7, 5, 5), 8.0
THIN = (
    noise(8, 3, 5),
    noise(9, 4, 5),
    noise(10, 1, 5),
    noise(11, 4, 1),
    2.0,
    True,
)  # in 5, out 4, rank 1

check_lora_forward = exercise(
    """\
def lora_forward(x, weight, a, b, alpha, on):
    plain = x @ weight.T
    if not on:
        return plain
    return plain + alpha / len(a) * (x @ a.T) @ b.T
""",
    "x Wᵀ + (α / r)·(x Aᵀ) Bᵀ with the adapter on, x Wᵀ with it off (Hu et al. 2022)",
    [(*given, on) for given in (SQUARE, FULL) for on in (True, False)],
    """\
never off: With on=False the adapter still works: then there is no reference, and every KL is 0.
- if not on:
+ if False:
α / r on everything: α / r multiplies the adapter's product alone, not x Wᵀ.
- plain + alpha / len(a) * (x @ a.T) @ b.T
+ alpha / len(a) * (plain + (x @ a.T) @ b.T)
the weight not transposed: `weight` is [out, in], and x holds one input a row: x Wᵀ. Yours is x W, which runs
 only where the layer is square.
- weight.T
+ weight
a whole number for α / r: Your scale is α // r, a whole number: divide with /.
- alpha / len(a)
+ alpha // len(a)
divided by the width: You divided α by the layer's width, the number of its inputs or of its outputs; `a` is
 [r, in] and `b` is [out, r], so the rank is a.shape[0], or len(a).
- len(a)
+ a.shape[1]
""",
    gradient=("x", "a", "b"),
    further=[
        ("the rank is 1 and the layer not square", THIN),
        ("α is below the rank", (*FULL[:2], noise(6, 4, 5), noise(7, 5, 4), 1.0, True)),
        ("there is one row", (THIN[0][:1], *THIN[1:])),
        ("there are forty rows", (noise(12, 40, 5), *THIN[1:])),
    ],
)
