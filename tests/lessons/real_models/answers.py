"""Answers to the exercises of lesson 12, as learners write them."""

# fmt: off
MASK = "torch.arange(width) < torch.tensor([[len(row)] for row in answers])"
SEEN = 'encoded["attention_mask"].bool()'
GIVEN = "input_ids=ids, attention_mask=mask, position_ids=mask.cumsum(1) - mask"
AT = "query.shape[1] - 1 : -1"
LOG = ".float().log_softmax(-1)"
CHOSEN = "torch.tensor([row + [False] * (width - len(row)) for row in chosen])"
WINS, LENGTHS = "(ab.float() + (~ba).float())[matched] / 2", "(words_a - words_b).abs() <= most"
PRODUCT = "alpha / len(a) * (x @ a.T) @ b.T"

WRONG = [
    ("chat_rollout", "BOS twice", "add_special_tokens=False, ", ""),
    ("chat_rollout", "no generation prompt", '"add_generation_prompt": True',
     '"add_generation_prompt": False'),
    ("chat_rollout", "no generation prompt, BOS twice", '"add_generation_prompt": True',
     '"add_generation_prompt": False', "add_special_tokens=False, ", ""),
    ("chat_rollout", "no template", "tokenizer.apply_chat_template(messages, **how)",
     '" ".join(message["content"] for message in messages)'),
    ("chat_rollout", "the last message alone", "apply_chat_template(messages,",
     "apply_chat_template(messages[-1:],"),
    ("chat_rollout", "the system's message left out", "apply_chat_template(messages,",
     'apply_chat_template([m for m in messages if m["role"] != "system"],'),
    ("chat_rollout", "prompts padded as the tokenizer pleases", '"padding_side": "left", ', ""),
    ("chat_rollout", "the mask by comparing with pad", SEEN,
     'encoded["input_ids"].ne(tokenizer.eos_token_id)'),
    ("chat_rollout", "a mask of numbers", SEEN, 'encoded["attention_mask"]'),
    ("chat_rollout", "everything counts", SEEN, 'encoded["input_ids"] >= 0'),
    ("chat_rollout", "answers padded left", "row + [pad] * (width - len(row))",
     "[pad] * (width - len(row)) + row"),
    ("chat_rollout", "padded with 0", "[pad] *", "[0] *"),
    ("chat_rollout", "one EOS more", "[pad] * (width - len(row))", "[pad] * (width + 1 - len(row))"),
    ("chat_rollout", "the stop token does not count", MASK, "response != tokenizer.eos_token_id"),
    ("chat_rollout", "one pad counts", MASK, MASK.replace("<", "<=")),
    ("chat_rollout", "a column late", AT, "query.shape[1] :"),
    ("chat_rollout", "a column early", AT, "query.shape[1] - 2 : -2"),
    ("chat_rollout", "no position ids", GIVEN, "input_ids=ids, attention_mask=mask"),
    ("chat_rollout", "no attention mask", GIVEN, "input_ids=ids, position_ids=mask.cumsum(1) - mask"),
    ("chat_rollout", "positions from −1", GIVEN, GIVEN.replace("- mask", "- 1")),
    ("chat_rollout", "logits", LOG, ""),
    ("chat_rollout", "probabilities", LOG, ".float().softmax(-1)"),
    ("chat_rollout", "temperature 0.7", LOG, ".float().div(0.7).log_softmax(-1)"),
    ("chat_rollout", "the padding has log-probs", "torch.where(response_mask, logprobs, 0.0)", "logprobs"),
    ("chat_rollout", "four results", "response_mask, torch.where", "torch.where"),

    ("turns_rollout", "the tool's tokens count", 'who == "policy"', "True"),
    ("turns_rollout", "the tool's tokens alone", 'who == "policy"', 'who != "policy"'),
    ("turns_rollout", "padding counts", "[False] *", "[True] *"),
    ("turns_rollout", "the model reads its own words alone", "response, read)", "response, mask)"),
    ("turns_rollout", "by comparing with pad", CHOSEN, f"{CHOSEN} & (response != pad)"),
    ("turns_rollout", "lesson 01's mask", CHOSEN,
     "(response == pad).int().cumsum(1) - (response == pad).int() == 0"),
    ("turns_rollout", "all but the policy's first turn", "for who, ids in row for _",
     "for k, (who, ids) in enumerate(row) for _", 'who == "policy"', 'who == "policy" and k > 0'),
    ("turns_rollout", "zeros for pads", "[pad] *", "[0] *"),
    ("turns_rollout", "the tool has log-probs", "torch.where(mask, logprobs, 0.0)", "logprobs"),
    ("turns_rollout", "two results", "return response, mask,", "return response,"),
    ("turns_rollout", "probabilities", "torch.where(mask, logprobs, 0.0)",
     "torch.where(mask, logprobs.exp(), 0.0)"),

    ("debiased_win_rate", "B's wins", WINS, "((~ab).float() + ba.float())[matched] / 2"),
    ("debiased_win_rate", "ba as it is", "~ba", "ba"),
    ("debiased_win_rate", "A first alone", WINS, "ab.float()[matched]"),
    ("debiased_win_rate", "B first alone", WINS, "(~ba).float()[matched]"),
    ("debiased_win_rate", "wins in both orders alone", WINS, "(ab & ~ba).float()[matched]"),
    ("debiased_win_rate", "a sum for the mean", WINS, "(ab.float() + (~ba).float())[matched]"),
    ("debiased_win_rate", "split pairs left out", "    n, rate", "    wins = wins[wins != 0.5]\n    n, rate"),
    ("debiased_win_rate", "all pairs", LENGTHS, "words_a > 0"),
    ("debiased_win_rate", "n of all pairs", "len(wins)", "len(ab)"),
    ("debiased_win_rate", "n of verdicts", "len(wins)", "2 * len(wins)"),
    ("debiased_win_rate", "shorter than, not at most", "<= most", "< most"),
    ("debiased_win_rate", "no size", ".abs()", ""),
    ("debiased_win_rate", "one standard error", "1.96", "1.0"),
    ("debiased_win_rate", "low and high exchanged", "middle - half, middle + half",
     "middle + half, middle - half"),
    ("debiased_win_rate", "around the rate", "middle - half, middle + half", "rate - half, rate + half"),
    ("debiased_win_rate", "the rate alone", "return rate, middle - half, middle + half", "return rate"),
    ("debiased_win_rate", "z not squared", "rate + z**2", "rate + z"),
    ("debiased_win_rate", "the middle returned", "return rate", "return middle"),

    ("lora_forward", "never off", "if not on:", "if False:"),
    ("lora_forward", "never on", "if not on:", "if True:"),
    ("lora_forward", "on and off exchanged", "if not on:", "if on:"),
    ("lora_forward", "the weight as it is", "x @ weight.T", "x @ weight"),
    ("lora_forward", "scaled as a whole", f"plain + {PRODUCT}", "alpha / len(a) * (plain + (x @ a.T) @ b.T)"),
    ("lora_forward", "no scale", PRODUCT, "(x @ a.T) @ b.T"),
    ("lora_forward", "α alone", "alpha / len(a)", "alpha"),
    ("lora_forward", "1/r alone", "alpha / len(a)", "1 / len(a)"),
    ("lora_forward", "α over √r", "alpha / len(a)", "alpha / len(a) ** 0.5"),
    ("lora_forward", "r over α", "alpha / len(a)", "len(a) / alpha"),
    ("lora_forward", "the outputs for the rank", "len(a)", "len(b)"),
    ("lora_forward", "//", "alpha / len(a)", "alpha // len(a)"),
    ("lora_forward", "subtracted", "plain + alpha", "plain - alpha"),
    ("lora_forward", "instead of the weights", f"plain + {PRODUCT}", PRODUCT),
    ("lora_forward", "at least 1", "alpha / len(a)", "max(1, alpha / len(a))"),
]

RIGHT = [
    ("chat_rollout", "the library pads and masks, cross entropy", """
def chat_rollout(tokenizer, actor, conversations, answers):
    found = tokenizer.apply_chat_template(
        conversations, add_generation_prompt=True, padding=True, tokenizer_kwargs={"padding_side": "left"},
        return_dict=True, return_tensors="pt")
    query, seen = found["input_ids"], found["attention_mask"] == 1
    response = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(a) for a in answers], batch_first=True, padding_value=tokenizer.pad_token_id)
    stops = (response == tokenizer.eos_token_id).int()
    mask = stops.cumsum(1) - stops == 0
    ids, both = torch.cat([query, response], 1), torch.cat([seen, mask], 1).long()
    with torch.no_grad():
        logits = actor(input_ids=ids, attention_mask=both, position_ids=both.cumsum(1) - both).logits
    loss = torch.nn.functional.cross_entropy(
        logits[:, query.shape[1] - 1 : -1].flatten(0, 1), response.flatten(), reduction="none")
    return query, seen, response, mask, -loss.view_as(response) * mask
"""),
    ("chat_rollout", "each response in a forward of its own", """    with torch.no_grad():
        logits = actor(
            input_ids=ids, attention_mask=mask, position_ids=mask.cumsum(1) - mask
        ).logits
    logprobs = logits[:, query.shape[1] - 1 : -1].float().log_softmax(-1)
    logprobs = logprobs.gather(-1, response[..., None])[..., 0]
""", """    logprobs = torch.zeros(response.shape)
    for row in range(len(query)):
        prompt, answer = query[row][query_mask[row]], response[row][response_mask[row]]
        with torch.no_grad():
            logits = actor(torch.cat([prompt, answer])[None]).logits[0]
        for t, token in enumerate(answer):
            logprobs[row, t] = logits[len(prompt) - 1 + t].log_softmax(-1)[token]
"""),
    ("turns_rollout", "token by token", """
def turns_rollout(forward, pad, query, query_mask, turns):
    width = max(sum(len(ids) for _, ids in row) for row in turns)
    response = torch.full((len(turns), width), pad)
    mask, seen = torch.zeros(2, len(turns), width, dtype=torch.bool)
    for b, row in enumerate(turns):
        t = 0
        for who, ids in row:
            for token in ids:
                response[b, t], mask[b, t], seen[b, t] = token, who == "policy", True
                t += 1
    return response, mask, forward(query, query_mask, response, seen) * mask
"""),
    ("turns_rollout", "padding is read, too, which changes nothing before it", "response, read)",
     "response, torch.ones_like(read))"),
    ("debiased_win_rate", "pair by pair, as numbers", """
def debiased_win_rate(ab, ba, words_a, words_b, most):
    rows = zip(ab.tolist(), ba.tolist(), words_a.tolist(), words_b.tolist())
    wins = [(x + (not y)) / 2 for x, y, a, b in rows if abs(a - b) <= most]
    n = len(wins)
    p, q = sum(wins) / n, 1.96**2
    root = (q * q + 4 * n * q * p * (1 - p)) ** 0.5
    return p, (2 * n * p + q - root) / (2 * (n + q)), (2 * n * p + q + root) / (2 * (n + q))
"""),
    ("lora_forward", "weights merged (a remark says what it costs)", PRODUCT,
     "x @ (alpha / len(a) * b @ a).T"),
    ("lora_forward", "row by row", PRODUCT,
     "torch.stack([torch.mv(b, torch.mv(a, row)) for row in x]) * alpha / len(a)"),
    ("lora_forward", "the adapter's share is 0 when off", """
def lora_forward(x, weight, a, b, alpha, on):
    scale = alpha / a.shape[0] if on else 0.0
    return torch.nn.functional.linear(x,
    weight) + scale * torch.nn.functional.linear(torch.nn.functional.linear(x, a), b)
"""),
]
