"""Exercises of lesson 12: messages and turns as tokens, a win rate; those on the task."""

from functools import cache

from torch import Tensor

from helpers.kit.exercise import Seen, by_name, expect, floats, masks, noise
from helpers.kit.judge import exercise
from helpers.kit.patterns import form
from helpers.lessons.real_models.chat_model import chat_tokenizer
from helpers.lessons.real_models.task_checks import (  # noqa: F401 (the lesson takes all from here)
    check_answer_reward,
    check_best_probs,
    check_few_shot_prompt,
)


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
            drawn("get well soon . <end>", "fine , how"),
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
    return [(chat_tokenizer(), *one) for one in asked]


TENSORS = ("prompts' ids", "prompts' mask", "responses' ids", "responses' mask")


def tokens_seen(function, tokenizer, conversations, answers) -> Seen:
    """What the prompts read as, and the four tensors."""
    seen = by_name(TENSORS, function(tokenizer, conversations, answers))
    ids = seen["prompts' ids"]
    return {"prompts as text": as_text(tokenizer, ids) if isinstance(ids, Tensor) else ids} | seen


def as_text(tokenizer, ids: Tensor) -> list[str]:
    """Each row decoded, without what it is filled up with."""
    expect(ids.dim() == 2 and not ids.is_floating_point(), "wrong type",
           f"The prompts' ids are token ids, [B, P]; yours: {form(ids)}.")  # fmt: skip
    ends = [(row != tokenizer.pad_token_id).nonzero().flatten().tolist() or [0] for row in ids]
    return [tokenizer.decode(row[at[0] : at[-1] + 1]) for row, at in zip(ids, ends, strict=True)]


check_chat_tokens = exercise(
    """\
def chat_tokens(tokenizer, conversations, answers):
    how = {"tokenize": False, "add_generation_prompt": True}
    texts = [tokenizer.apply_chat_template(messages, **how) for messages in conversations]
    padding = {"padding": True, "padding_side": "left", "return_tensors": "pt"}
    encoded = tokenizer(texts, add_special_tokens=False, **padding)
    query, query_mask = encoded["input_ids"], encoded["attention_mask"].bool()
    width, pad = max(map(len, answers)), tokenizer.pad_token_id
    response = torch.tensor([row + [pad] * (width - len(row)) for row in answers])
    counted = torch.arange(width) < torch.tensor([[len(row)] for row in answers])
    return query, query_mask, response, counted
""",
    "the template with the generation prompt, BOS once, padded left; sampled ids padded right, every sampled"
    " token counts",
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
answers padded left: Pads belong after an answer: it goes on where its prompt ends.
- row + [pad] * (width - len(row))
+ [pad] * (width - len(row)) + row
""",
    results=("prompts as text", *TENSORS),
    observe=tokens_seen,
)


TOOL = "<turn> tool {} <end> <turn> assistant"
TURNS = (  # in order: who, and what was said
    [("policy", "look <end>"), ("tool", TOOL.format("rain")), ("policy", "no . <end>")],
    [("policy", "why ? <end>")],
    [("tool", TOOL.format("sun")), ("tool", TOOL.format("rain")), ("policy", "it is fine")],
)


@cache
def two_turns() -> list[tuple]:
    """The probes: one conversation with a tool's turn; three, one without, one that begins with two."""
    turns = [[(who, drawn(text)[0]) for who, text in row] for row in TURNS]
    return [(chat_tokenizer().pad_token_id, turns[:n]) for n in (1, 3)]


check_turns_tokens = exercise(
    """\
def turns_tokens(pad, turns):
    rows = [[token for _, ids in row for token in ids] for row in turns]
    chosen = [[who == "policy" for who, ids in row for _ in ids] for row in turns]
    width = max(map(len, rows))
    response = torch.tensor([row + [pad] * (width - len(row)) for row in rows])
    read = torch.arange(width) < torch.tensor([[len(row)] for row in rows])
    counted = torch.tensor([row + [False] * (width - len(row)) for row in chosen])
    return response, read, counted
""",
    "all but padding is read; of it the policy's tokens alone count",
    two_turns,
    """\
the tool's tokens count: You count the tool's tokens. The policy did not choose
 them: no gradient, no KL.
- who == "policy" for
+ True for
the tool's tokens alone: You count what the tool said, and not what the policy said.
- who == "policy" for
+ who != "policy" for
hidden from the model: Your `read` hides the tool's words from the policy, which read them before it went on.
- return response, read, counted
+ return response, counted, counted
the stop tokens do not count: Each turn of the policy ends with a stop token that it chose: that
 counts, in every turn.
- torch.tensor([row + [False] * (width - len(row)) for row in chosen])
+ torch.tensor([row + [False] * (width - len(row)) for row in chosen]) & (response != pad)
the first turn alone: What counts ends at the first stop token, as with one turn. The policy's later
 turns count, too.
- torch.tensor([row + [False] * (width - len(row)) for row in chosen])
+ (response == pad).int().cumsum(1) - (response == pad).int() == 0
the tool's words cut out: The tool's tokens are missing in your response. The policy read them: they stay,
 and do not count.
- [[token for _, ids in row for token in ids] for row in turns]
-     chosen = [[who == "policy" for who, ids in row for _ in ids] for row in turns]
+ [[token for who, ids in row if who == "policy" for token in ids] for row in turns]
+     chosen = [[True for _ in row] for row in rows]
a mask made from pad: Your `read` is `response != pad`. Here pad is EOS, and EOS also ends each turn.
- torch.arange(width) < torch.tensor([[len(row)] for row in rows])
+ response != pad
""",
    results=("responses' ids", "what is read", "what counts"),
)


FIVE = (
    *masks("11010", "01100"),
    floats([12, 9, 15, 11, 20])[0],
    floats([12, 14, 14, 13, 9])[0],
    2.0,
)
MANY = (
    noise(1, 60) > -0.5,
    noise(2, 60) > 0.3,
    *(noise(k, 60).mul(3).round() + 15 for k in (3, 4)),
    1.0,
)
ALL = (*masks("111", "000"), floats([9, 9, 9])[0], floats([9, 9, 8])[0], 1.0)

check_debiased_win_rate = exercise(
    """\
from helpers.lessons.real_models.judging import wilson


def debiased_win_rate(ab, ba, words_a, words_b, most):
    matched = (words_a - words_b).abs() <= most
    wins = (ab.float() + (~ba).float())[matched] / 2
    return wins.mean(), *wilson(wins.mean(), len(wins))
""",
    "wins of a pair: (ab + not ba) / 2, where |words_a − words_b| ≤ most; Wilson (1927) with n pairs",
    [FIVE, MANY],
    """\
the second order not turned: With B shown first, True says that B won: A's verdict is `~ba`.
- ~ba
+ ba
one order alone: You use the verdicts with A first alone: whoever is shown first gains. Take
 the mean of both orders.
- (ab.float() + (~ba).float())[matched] / 2
+ ab.float()[matched]
every verdict a pair: Two verdicts on one pair are no two pairs: n is the number of matched pairs.
- wilson(wins.mean(), len(wins))
+ wilson(wins.mean(), 2 * len(wins))
split verdicts dropped: A pair on which the two orders disagree is half a win; you left it out.
-     return
+     wins = wins[wins != 0.5]
+     return
n of all pairs: Only the matched pairs are evidence: n is their number.
- len(wins)
+ len(ab)
the win rate of B: That is how often B wins; A's win rate is asked for.
- (ab.float() + (~ba).float())
+ ((~ab).float() + ba.float())
longer on one side alone: Take the difference's size: where B is much longer the pair is not matched either.
- .abs()
+
""",
    results=("rate", "low", "high"),
    further=[("A wins every pair", ALL)],
)
