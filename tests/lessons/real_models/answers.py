"""Answers to the exercises of lesson 12, as learners write them."""

# fmt: off
SEEN = 'encoded["attention_mask"].bool()'
READ = "torch.arange(width) < torch.tensor([[len(row)] for row in rows])"
WINS = "(ab.float() + (~ba).float())[matched] / 2"
EQUAL, ENDED = "text.strip() == right", 'text.endswith("\\n") and '
BEST = "torch.sigmoid(torch.logit(probs) + 1 / kl_coef)"
WEIGHTED = "probs * torch.tensor(1 / kl_coef).exp()"

WRONG = [
    ("chat_tokens", "to a stop or pad", READ.replace("rows", "answers"), "(response == pad).cumsum(1) < 2"),
    ("answer_reward", "all blanks out", EQUAL, '"".join(text.split()) == right.replace(" ", "")'),
    ("few_shot_prompt", "a blank for each end of line", '{answer}\\n"', '{answer} \\n"'),
    ("few_shot_prompt", "answers before questions", "{asked} -> {answer}", "{answer} -> {asked}"),
    ("answer_reward", "in", EQUAL, "right in text"),
    ("answer_reward", "ends with", EQUAL, "text.strip().endswith(right)"),
    ("answer_reward", "a set of words", EQUAL, "set(text.split()) == set(right.split())"),
    ("answer_reward", "the first line", f"{ENDED}{EQUAL}", 'text.split("\\n")[0].strip() == right'),
    ("answer_reward", "−1 for wrong ones", f"float({ENDED}{EQUAL})", f"2.0 * ({ENDED}{EQUAL}) - 1"),
    ("answer_reward", "part of a point", f"float({ENDED}{EQUAL})",
     f"float({ENDED}{EQUAL}) + 0.1 * (right in text)"),
    ("best_probs", "a softmax over prompts", BEST, "(probs.log() + 1 / kl_coef).softmax(0)"),
    ("best_probs", "log p for the log-odds", "torch.logit(probs)", "probs.log()"),
    ("best_probs", "overflow", BEST, f"{WEIGHTED} / ({WEIGHTED} + 1 - probs)"),

    ("chat_tokens", "no generation prompt", '"add_generation_prompt": True',
     '"add_generation_prompt": False'),
    ("chat_tokens", "no template", "tokenizer.apply_chat_template(messages, **how)",
     '" ".join(message["content"] for message in messages)'),
    ("chat_tokens", "the last message alone", "apply_chat_template(messages,",
     "apply_chat_template(messages[-1:],"),
    ("chat_tokens", "a mask of numbers", SEEN, 'encoded["attention_mask"]'),
    ("chat_tokens", "everything counts", SEEN, 'encoded["input_ids"] >= 0'),
    ("chat_tokens", "padded with 0", "[pad] *", "[0] *"),

    ("turns_tokens", "padding counts", "[False] *", "[True] *"),
    ("turns_tokens", "all but the policy's first turn", "for who, ids in row for _",
     "for k, (who, ids) in enumerate(row) for _", 'who == "policy"', 'who == "policy" and k > 0'),
    ("answer_reward", "anybody's solution", "text.strip() == right", "text.strip() in solution"),
    ("turns_tokens", "every other turn", 'who == "policy" for who, ids in row for',
     "turn % 2 == 0 for turn, (_, ids) in enumerate(row) for"),
    ("turns_tokens", "zeros for pads", "[pad] *", "[0] *"),
    ("turns_tokens", "padding is read", READ, "torch.ones_like(response, dtype=torch.bool)"),

    ("debiased_win_rate", "B first alone", WINS, "(~ba).float()[matched]"),
    ("debiased_win_rate", "one standard error", "len(wins))", "len(wins), 1.0)"),
    ("debiased_win_rate", "low and high exchanged", "*wilson(wins.mean(), len(wins))",
     "*wilson(wins.mean(), len(wins))[::-1]"),
    ("debiased_win_rate", "the middle returned", "return wins.mean()",
     "return sum(wilson(wins.mean(), len(wins))) / 2"),
]

RIGHT = [
    ("few_shot_prompt", "line by line", """
def few_shot_prompt(shots, question):
    text = ""
    for asked in shots:
        text += asked + " -> " + shots[asked] + chr(10)
    return text + question + " ->"
"""),
    ("answer_reward", "word by word", EQUAL, "text.split() == right.split()"),
    ("answer_reward", "booleans", "float(text", "(text"),
    ("answer_reward", "a tensor, the line's end cut off", """
def answer_reward(completions, solution):
    given = [text[:-1].strip() if text[-1:] == chr(10) else None for text in completions]
    return torch.tensor([a == b for a, b in zip(given, solution)])
"""),
    ("best_probs", "p·w / (p·w + 1 − p), divided by w = e^(1/β)", BEST,
     "probs / (probs + (1 - probs) * torch.tensor(-1 / kl_coef).exp())"),
    ("best_probs", "a softmax over two classes", """
def best_probs(probs, kl_coef):
    both = torch.stack([probs.log() + 1 / kl_coef, torch.log1p(-probs)])
    return both.softmax(dim=0)[0]
"""),
    ("chat_tokens", "the library pads and masks", """
def chat_tokens(tokenizer, conversations, answers):
    found = tokenizer.apply_chat_template(
        conversations, add_generation_prompt=True, padding=True, tokenizer_kwargs={"padding_side": "left"},
        return_dict=True, return_tensors="pt")
    response = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(a) for a in answers], batch_first=True, padding_value=tokenizer.pad_token_id)
    counted = torch.arange(response.shape[1]) < torch.tensor([[len(a)] for a in answers])
    return found["input_ids"], found["attention_mask"] == 1, response, counted
"""),
    ("turns_tokens", "token by token", """
def turns_tokens(pad, turns):
    width = max(sum(len(ids) for _, ids in row) for row in turns)
    response = torch.full((len(turns), width), pad)
    read, counted = torch.zeros(2, len(turns), width, dtype=torch.bool)
    for b, row in enumerate(turns):
        t = 0
        for who, ids in row:
            for token in ids:
                response[b, t], counted[b, t], read[b, t] = token, who == "policy", True
                t += 1
    return response, read, counted
"""),
    ("debiased_win_rate", "pair by pair, as numbers", """
def debiased_win_rate(ab, ba, words_a, words_b, most):
    rows = zip(ab.tolist(), ba.tolist(), words_a.tolist(), words_b.tolist())
    wins = [(x + (not y)) / 2 for x, y, a, b in rows if abs(a - b) <= most]
    n = len(wins)
    p, q = sum(wins) / n, 1.96**2
    root = (q * q + 4 * n * q * p * (1 - p)) ** 0.5
    return p, (2 * n * p + q - root) / (2 * (n + q)), (2 * n * p + q + root) / (2 * (n + q))
"""),
]
