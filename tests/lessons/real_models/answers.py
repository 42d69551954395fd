"""Answers to the exercises of lesson 12, as learners write them."""

# fmt: off
MASK = "torch.arange(width) < torch.tensor([[len(row)] for row in answers])"
SEEN = 'encoded["attention_mask"].bool()'
GIVEN = "input_ids=ids, attention_mask=mask, position_ids=mask.cumsum(1) - mask"
AT = "query.shape[1] - 1 : -1"
LOG = ".float().log_softmax(-1)"
FULL = "2 * trained * parameters + frozen * parameters"
LORA = "frozen * parameters + 2 * trained * adapter"
PRODUCT = "alpha / len(a) * (x @ a.T) @ b.T"

WRONG = [
    ("chat_rollout", "BOS twice", "add_special_tokens=False, ", ""),
    ("chat_rollout", "no generation prompt", '"add_generation_prompt": True',
     '"add_generation_prompt": False'),
    ("chat_rollout", "no generation prompt, BOS twice", '"add_generation_prompt": True',
     '"add_generation_prompt": False', "add_special_tokens=False, ", ""),
    ("chat_rollout", "no template", "tokenizer.apply_chat_template(talk, **how)",
     '" ".join(message["content"] for message in talk)'),
    ("chat_rollout", "the last message alone", "apply_chat_template(talk,", "apply_chat_template(talk[-1:],"),
    ("chat_rollout", "the system's message left out", "apply_chat_template(talk,",
     'apply_chat_template([m for m in talk if m["role"] != "system"],'),
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

    ("held_bytes", "one moment", "4 + 4 + 8", "4 + 4 + 4"),
    ("held_bytes", "the critic forgotten", "4 + 4 + 8, 4", "(4 + 4 + 8) / 2, 4"),
    ("held_bytes", "a frozen number has a gradient", "8, 4", "8, 4 + 4"),
    ("held_bytes", "no reference", FULL, "2 * trained * parameters"),
    ("held_bytes", "three trained models", FULL, "3 * trained * parameters"),
    ("held_bytes", "bfloat16 where frozen", "8, 4", "8, 2"),
    ("held_bytes", "numbers, not bytes", "4 + 4 + 8, 4", "4, 1"),
    ("held_bytes", "mebibytes", FULL, f"({FULL}) / 2**20", LORA, f"({LORA}) / 2**20"),
    ("held_bytes", "LoRA as in full", LORA, FULL),
    ("held_bytes", "LoRA with a trained base", LORA, "trained * parameters + 2 * trained * adapter"),
    ("held_bytes", "LoRA with three copies", LORA, "3 * frozen * parameters + 2 * trained * adapter"),
    ("held_bytes", "the adapters alone", LORA, "2 * trained * adapter"),
    ("held_bytes", "one adapter", LORA, "frozen * parameters + trained * adapter"),
    ("held_bytes", "32-bit numbers", f"float({FULL})", f"torch.tensor(float({FULL})).int()"),
    ("held_bytes", "always full", 'method == "full"', "method"),

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
    ("held_bytes", "a table", """
def held_bytes(parameters, adapter, method):
    rows = {"full": [(parameters, 16), (parameters, 16), (parameters, 4)],
            "lora": [(parameters, 4), (adapter, 16), (adapter, 16)]}
    return sum(count * each for count, each in rows[method])
"""),
    ("held_bytes", "a tensor", f"float({FULL})", "torch.tensor(36.0 * parameters)"),
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
