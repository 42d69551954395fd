"""`chat_rollout`, the large exercise of notebook 12: from messages to a rollout."""

import torch
from torch import Tensor

from helpers.checks.judging.compare import alike
from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.parts import parts_checker
from helpers.checks.judging.raised import explained
from helpers.checks.judging.runner import copy_of
from helpers.checks.real_models.chat_model import chat_actor, chat_tokenizer


def talk(*contents: str, system: str | None = None) -> list[dict]:
    """A conversation of user and assistant in turn, the user last."""
    roles = ["assistant" if (len(contents) - k) % 2 == 0 else "user" for k in range(len(contents))]
    said = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=True)]
    return ([{"role": "system", "content": system}] if system is not None else []) + said


def drawn(*texts: str) -> list[list[int]]:
    """Token ids of answers as a policy draws them: with the stop token, or cut off before it."""
    tokenizer = chat_tokenizer()
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


PROBES = [
    (chat_tokenizer(), chat_actor(), conversations, answers)
    for conversations, answers in (
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
    )
]


def encoded(tokenizer, conversations, bos=False, side="left", **template) -> tuple[Tensor, Tensor]:
    """Ids and mask of the conversations in the template, without a second BOS, padded left."""
    how = {"tokenize": False, "add_generation_prompt": True} | template
    texts = [tokenizer.apply_chat_template(one, **how) for one in conversations]
    found = tokenizer(
        texts, add_special_tokens=bos, padding=True, padding_side=side, return_tensors="pt"
    )
    return found["input_ids"], found["attention_mask"].bool()


def padded(answers, pad: int, side: str = "right") -> tuple[Tensor, Tensor]:
    """Answers of different length as ids and mask [B, T]; the stop token counts, the pads do not."""
    width = max(map(len, answers))
    lengths = torch.tensor([len(answer) for answer in answers])
    rows = [
        answer + [pad] * (width - len(answer))
        if side == "right"
        else [pad] * (width - len(answer)) + answer
        for answer in answers
    ]
    return torch.tensor(rows), torch.arange(width) < lengths.unsqueeze(1)


@torch.no_grad()
def aligned_logprobs(
    actor,
    query,
    query_mask,
    response,
    mask,
    positions=True,
    attend=True,
    shift=0,
    log=True,
    fill=0.0,
) -> Tensor:
    """Log-probs [B, T] of the responses, each from the position before it; 0 on padding."""
    ids, counted = torch.cat([query, response], dim=1), torch.cat([query_mask, mask], dim=1)
    inputs = {"attention_mask": counted.long()} if attend else {}
    if positions:
        inputs["position_ids"] = counted.long().cumsum(dim=1) - counted.long()
    logits = actor(input_ids=ids, **inputs).logits.float()
    first = query.shape[1] - 1 + shift
    logits = torch.cat([logits, logits[:, -1:]], dim=1)[:, first : first + response.shape[1]]
    chosen = logits.gather(-1, response.unsqueeze(-1)).squeeze(-1)
    logprobs = chosen - logits.logsumexp(dim=-1) if log else chosen
    return logprobs if fill is None else torch.where(mask, logprobs, fill)


def chat_rollout(tokenizer, actor, conversations, answers):
    """Prompt ids and mask, response ids and mask, log-probs, from messages and drawn answers."""
    query, query_mask = encoded(tokenizer, conversations)
    response, mask = padded(answers, tokenizer.pad_token_id)
    return query, query_mask, response, mask, aligned_logprobs(
        actor, query, query_mask, response, mask
    )  # fmt: skip


def query_with(**changes):
    """The prompt ids with something changed."""
    return lambda tokenizer, actor, talks, answers: encoded(tokenizer, talks, **changes)[0]


def untemplated(tokenizer, actor, talks, answers):
    texts = [" ".join(message["content"] for message in one) for one in talks]
    return tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")["input_ids"]


def last_message_only(tokenizer, actor, talks, answers):
    return encoded(tokenizer, [one[-1:] for one in talks])[0]


def without_bos(tokenizer, actor, talks, answers):
    how = {"tokenize": False, "add_generation_prompt": True}
    texts = [
        tokenizer.apply_chat_template(one, **how).removeprefix(tokenizer.bos_token) for one in talks
    ]
    named = {"padding": True, "padding_side": "left", "return_tensors": "pt"}
    return tokenizer(texts, add_special_tokens=False, **named)["input_ids"]


def answers_in_the_prompt(tokenizer, actor, talks, answers):
    texts = [tokenizer.decode(answer) for answer in answers]
    joined = [
        [*one, {"role": "assistant", "content": text.removesuffix(" <end>")}]
        for one, text in zip(talks, texts, strict=True)
    ]
    return encoded(tokenizer, joined, add_generation_prompt=False)[0]


def query_mask_by(rule):
    def wrong(tokenizer, actor, talks, answers):
        return rule(tokenizer, *encoded(tokenizer, talks))

    return wrong


def response_by(rule):
    return lambda tokenizer, actor, talks, answers: rule(tokenizer, answers)


def right_of(tokenizer, talks, answers) -> tuple:
    """The four tensors before the log-probs."""
    return (*encoded(tokenizer, talks), *padded(answers, tokenizer.pad_token_id))


def logprobs_with(**changes):
    def wrong(tokenizer, actor, talks, answers):
        return aligned_logprobs(actor, *right_of(tokenizer, talks, answers), **changes)

    return wrong


def response_alone(tokenizer, actor, talks, answers):
    query, seen, response, mask = right_of(tokenizer, talks, answers)
    return aligned_logprobs(actor, query[:, -1:], seen[:, -1:], response, mask)


def negated(tokenizer, actor, talks, answers):
    return -aligned_logprobs(actor, *right_of(tokenizer, talks, answers))


def probabilities(tokenizer, actor, talks, answers):
    query, seen, response, mask = right_of(tokenizer, talks, answers)
    found = aligned_logprobs(actor, query, seen, response, mask).exp()
    return torch.where(mask, found, 0.0)


def at_temperature(temperature: float):
    """Log-probs of a policy at another temperature."""

    def wrong(tokenizer, actor, talks, answers):
        query, seen, response, mask = right_of(tokenizer, talks, answers)
        ids, counted = torch.cat([query, response], dim=1), torch.cat([seen, mask], dim=1).long()
        with torch.no_grad():
            logits = actor(
                input_ids=ids, attention_mask=counted, position_ids=counted.cumsum(1) - counted
            ).logits
        logits = logits[:, query.shape[1] - 1 : -1] / temperature
        found = logits.log_softmax(-1).gather(-1, response.unsqueeze(-1)).squeeze(-1)
        return torch.where(mask, found, 0.0)

    return wrong


def _part(index: int, look: str, mistakes: list) -> Exercise:
    def result(*given):
        return chat_rollout(*given)[index]

    names = "tokenizer actor conversations answers"
    return Exercise("chat_rollout", names, result, look, PROBES, mistakes)


# fmt: off
ROLLOUT = {
    "prompts' ids": _part(0, "template with the generation prompt, BOS once, padded left (notebook 12)", [
        ("BOS twice", "Each prompt begins with BOS twice: the template writes one, and the tokenizer puts"
         " another before it. Call the tokenizer with add_special_tokens=False.", query_with(bos=True)),
        ("no generation prompt", "The prompt ends after the user's turn. Without"
         " add_generation_prompt=True the model is to write `<turn> assistant` itself, and may go on as"
         " the user.", query_with(add_generation_prompt=False)),
        ("no generation prompt, BOS twice", "Two things: add_generation_prompt=True is missing, and BOS"
         " comes twice (template and tokenizer).", query_with(bos=True, add_generation_prompt=False)),
        ("no template", "You joined the messages' contents. A chat model knows turns only in its"
         " template: tokenizer.apply_chat_template.", untemplated),
        ("padded right", "Prompts are padded on the right, so pads stand between prompt and answer: pass"
         " padding_side=\"left\".", query_with(side="right")),
        ("padded right, BOS twice", "Two things: pass padding_side=\"left\", and BOS comes twice"
         " (add_special_tokens=False).", query_with(bos=True, side="right")),
        ("the last message only", "Only the last message is there; the model is to see the whole"
         " conversation, the system's message too.", last_message_only),
        ("no BOS", "BOS is gone. It is to stand there once: either the template's or the tokenizer's.",
         without_bos),
        ("the answer in the prompt", "The answers stand in the prompt already. The prompt ends where"
         " the answer begins.", answers_in_the_prompt),
    ]),
    "prompts' mask": _part(1, "the tokenizer's attention_mask, as booleans: True counts (notebook 12)", [
        ("made from pad", "Your mask is `ids != pad`. Here pad is EOS, and EOS also ends each turn of the"
         " prompt: these count. Take the tokenizer's attention_mask.",
         query_mask_by(lambda t, ids, mask: ids != t.pad_token_id)),
        ("all True", "The padding on the left counts in your mask. Take the tokenizer's attention_mask.",
         query_mask_by(lambda t, ids, mask: torch.ones_like(mask))),
        ("upside down", "Your mask is upside down: True means that a position counts.",
         query_mask_by(lambda t, ids, mask: ~mask)),
        ("BOS left out", "The first counted position of each row, BOS, is missing in your mask. It is read"
         " like any other token.",
         query_mask_by(lambda t, ids, mask: mask & (ids != t.bos_token_id))),
    ]),
    "responses' ids": _part(2, "the drawn ids, padded right with the pad token (notebook 12)", [
        ("padded left", "Responses are padded on the right: they begin where the prompt ends.",
         response_by(lambda t, answers: padded(answers, t.pad_token_id, "left")[0])),
        ("padded with 0", "You padded with 0, which is another token here (BOS). Use"
         " tokenizer.pad_token_id.", response_by(lambda t, answers: padded(answers, 0)[0])),
        ("cut to the shortest", "You cut all responses to the shortest one.",
         response_by(lambda t, answers: torch.tensor(
             [answer[: min(map(len, answers))] for answer in answers]))),
        ("without the stop token", "The stop token is gone. It is an action of the policy like any other.",
         response_by(lambda t, answers: padded(
             [[i for i in answer if i != t.eos_token_id] or [t.pad_token_id] for answer in answers],
             t.pad_token_id)[0])),
        ("one column too many", "There is a column too many: an EOS appended to each response (the policy"
         " has not"
         " drawn it), or a pad more than the longest one needs?",
         response_by(lambda t, answers: padded(
             [[*answer, t.eos_token_id] for answer in answers], t.pad_token_id)[0])),
    ]),
    "responses' mask": _part(3, "True for every drawn token, the stop token too (notebook 12)", [
        ("the stop token masked out", "Your mask is that of `response != pad`, and pad is EOS: the one"
         " real stop"
         " token of each response does not count, so nothing teaches the model to stop. Count by length,"
         " or up to and including the first EOS.",
         response_by(lambda t, answers: padded(answers, t.pad_token_id)[0] != t.pad_token_id)),
        ("all True", "The padding after the stop token counts in your mask.",
         response_by(lambda t, answers: torch.ones_like(padded(answers, t.pad_token_id)[1]))),
        ("upside down", "Your mask is upside down: True means that a position counts.",
         response_by(lambda t, answers: ~padded(answers, t.pad_token_id)[1])),
        ("one position too many", "One pad after each response counts. The last counted position is the"
         " response's last token.",
         response_by(lambda t, answers: torch.arange(max(map(len, answers)))
                     <= torch.tensor([[len(a)] for a in answers]))),
        ("one position too few", "The last token of each response does not count, whatever it is.",
         response_by(lambda t, answers: torch.arange(max(map(len, answers)))
                     < torch.tensor([[len(a) - 1] for a in answers]))),
    ]),
    "log-probs": _part(4, "log softmax(logits[:, P−1 : −1])[token], 0 on padding (notebook 12)", [
        ("those of the next token", "Your log-probs come from the response's own positions: logits at"
         " position t are for token t + 1. Begin one earlier, at the prompt's last: [:, P − 1 : −1].",
         logprobs_with(shift=1)),
        ("one position too early", "Your log-probs come from two positions before each token. The"
         " prompt's last position, P − 1, predicts the first one.", logprobs_with(shift=-1)),
        ("no position ids", "Without position_ids the padding on the left counts, and every token of a"
         " shorter prompt stands too far right: cumsum(mask) − mask.", logprobs_with(positions=False)),
        ("no attention mask", "Without the attention_mask the model reads the padding.",
         logprobs_with(attend=False)),
        ("neither mask nor positions", "Give the model the attention_mask and position_ids: it reads the"
         " padding, and counts it.", logprobs_with(attend=False, positions=False)),
        ("padding not zero", "Right where tokens count, and not 0 on the padding: torch.where(mask,"
         " logprobs, 0.0).", logprobs_with(fill=None)),
        ("logits", "These are logits; subtract their logsumexp over the vocabulary.",
         logprobs_with(log=False)),
        ("without the prompt", "The model has read the prompt's last token alone: one forward over prompt"
         " and response"
         " together.", response_alone),
        ("negative log-probs", "The sign is flipped: log-probs are never above 0.", negated),
        ("probabilities", "These are probabilities; take their logarithm.", probabilities),
        *(("temperature", f"You divided the logits by {t:g}. Here the temperature is 1.",
           at_temperature(t)) for t in (2.0, 1.5, 1.2, 0.9, 0.8, 0.7, 0.6, 0.5)),
    ]),
}
# fmt: on


def only_padding_is_wrong(function, report) -> tuple[str, str] | None:
    """Why log-probs are wrong that are right wherever a token counts."""
    if report.mistake != "unrecognised" or "result: the log-probs" not in report.message:
        return None
    for probe in PROBES:
        *_, mask, right = chat_rollout(*probe)
        if not alike(function(*copy_of(probe))[-1][mask], right[mask]):
            return None
    known = next(m for m in ROLLOUT["log-probs"].mistakes if m.name == "padding not zero")
    return known.name, known.says


check_chat_rollout = explained(parts_checker(ROLLOUT), cause=only_padding_is_wrong)
