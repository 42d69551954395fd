"""Answers to the exercises of lesson 12: right ones of another build, and wrong ones with their names."""

import torch
from torch.nn.utils.rnn import pad_sequence


def rollout_by_pieces(
    tokenizer, actor, conversations, answers, *, special=False, generation=True, side="left",
    seen=None, pad=None, response_side="right", mask=None, shift=0, positions=True, attend=True,
    zero=True, sign=1.0, halve=False, tokenized=False, last=False, stop=True,
):  # fmt: skip
    """Row by row: right as it stands, wrong with one thing changed."""
    rows = []
    for talk in conversations:
        talk = talk[-1:] if last else talk
        text = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=generation)
        rows.append(tokenizer(text, add_special_tokens=special)["input_ids"])
    if tokenized:
        rows = [
            tokenizer.apply_chat_template(t, add_generation_prompt=True, return_dict=False)
            for t in conversations
        ]
    fill = tokenizer.pad_token_id
    width = max(map(len, rows))
    space = [[fill] * (width - len(row)) for row in rows]
    left = side == "left"
    query = torch.tensor([s + r if left else r + s for s, r in zip(space, rows, strict=True)])
    counts = torch.tensor(
        [
            [0] * len(s) + [1] * len(r) if left else [1] * len(r) + [0] * len(s)
            for s, r in zip(space, rows, strict=True)
        ]
    ).bool()
    counts = counts if seen is None else seen(query, counts, tokenizer)
    drawn = [a if stop else [i for i in a if i != fill] + [fill] * (fill in a) for a in answers]
    longest = max(map(len, drawn))
    padding = fill if pad is None else pad
    gaps = [[padding] * (longest - len(a)) for a in drawn]
    response = torch.tensor(
        [a + g if response_side == "right" else g + a for a, g in zip(drawn, gaps, strict=True)]
    )
    lengths = torch.tensor([[len(a)] for a in drawn])
    kept = torch.arange(longest).expand(len(drawn), -1) < lengths
    kept = kept if mask is None else mask(response, lengths, tokenizer)
    whole = torch.cat([query, response], 1)
    both = torch.cat([counts, kept], 1)
    where = {"position_ids": (both.long().cumsum(1) - 1).clamp(min=0)} if positions else {}
    if attend:
        where["attention_mask"] = both.long()
    with torch.no_grad():
        scores = actor(input_ids=whole, **where).logits / (2 if halve else 1)
    start = query.shape[1] - 1 + shift
    scores = torch.cat([scores, scores[:, -1:]], 1)[:, start : start + longest]
    found = torch.stack(
        [
            row.log_softmax(-1)[range(longest), ids]
            for row, ids in zip(scores, response, strict=True)
        ]
    )
    found = sign * found
    return query, counts, response, kept, torch.where(kept, found, 0.0) if zero else found


def wrong(**changes):
    return lambda *given: rollout_by_pieces(*given, **changes)


def rollout_with_the_tokenizer(tokenizer, actor, conversations, answers):
    """The library pads and masks, the first EOS ends the mask, cross entropy gives the log-probs."""
    found = tokenizer.apply_chat_template(
        conversations,
        add_generation_prompt=True,
        padding=True,
        tokenizer_kwargs={"padding_side": "left"},
        return_dict=True,
        return_tensors="pt",
    )
    query, seen = found["input_ids"], found["attention_mask"] == 1
    response = pad_sequence(
        [torch.tensor(a) for a in answers], batch_first=True, padding_value=tokenizer.pad_token_id
    )
    stops = (response == tokenizer.eos_token_id).int()
    mask = stops.cumsum(1) - stops == 0
    ids, both = torch.cat([query, response], 1), torch.cat([seen, mask], 1).long()
    with torch.no_grad():
        logits = actor(
            input_ids=ids, attention_mask=both, position_ids=both.cumsum(1) - both
        ).logits
    logits = logits[:, query.shape[1] - 1 : -1]
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), response.flatten(), reduction="none"
    )
    return query, seen, response, mask, -loss.view_as(response) * mask


def rollout_one_by_one(tokenizer, actor, conversations, answers):
    """Each response in a forward of its own, without any padding."""
    query, seen, response, mask, _ = rollout_by_pieces(tokenizer, actor, conversations, answers)
    logprobs = torch.zeros(response.shape)
    for row in range(len(query)):
        prompt, answer = query[row][seen[row]], response[row][mask[row]]
        with torch.no_grad():
            logits = actor(torch.cat([prompt, answer])[None]).logits[0]
        for t, token in enumerate(answer):
            logprobs[row, t] = logits[len(prompt) - 1 + t].log_softmax(-1)[token]
    return query, seen, response, mask, logprobs


def held_by_table(parameters, adapter, method):
    rows = {
        "full": [(parameters, True), (parameters, True), (parameters, False)],
        "lora": [(parameters, False), (adapter, True), (adapter, True)],
    }
    return sum(count * (4 + 4 + 8 if trained else 4) for count, trained in rows[method])


def lora_by_merging(x, weight, a, b, alpha, on):
    rank = a.shape[0]
    return x @ (weight + on * alpha / rank * b @ a).T


def lora_by_einsum(x, weight, a, b, alpha, on):
    found = torch.einsum("ni,oi->no", x, weight)
    if not on:
        return found
    return found + torch.einsum("ni,ri,or->no", x, a, b) * (alpha / a.size(0))


def lora_by_loop(x, weight, a, b, alpha, on):
    rows = []
    for row in x:
        out = torch.mv(weight, row)
        if on:
            out = out + torch.mv(b, torch.mv(a, row)) * alpha / len(a)
        rows.append(out)
    return torch.stack(rows)


RIGHT = [
    ("chat_rollout", rollout_by_pieces),
    ("chat_rollout", wrong(tokenized=True)),
    ("chat_rollout", rollout_with_the_tokenizer),
    ("chat_rollout", rollout_one_by_one),
    ("chat_rollout", lambda *given: list(rollout_by_pieces(*given))),
    ("held_bytes", held_by_table),
    ("held_bytes", lambda n, a, m: 36.0 * n if m == "full" else 4.0 * n + 32.0 * a),
    ("held_bytes", lambda n, a, m: torch.tensor(36.0 * n if m == "full" else 4.0 * n + 32.0 * a)),
    ("lora_forward", lora_by_merging),
    ("lora_forward", lora_by_einsum),
    ("lora_forward", lora_by_loop),
]
WRONG = [
    ("chat_rollout", "BOS twice", wrong(special=True)),
    ("chat_rollout", "no generation prompt", wrong(generation=False)),
    ("chat_rollout", "no generation prompt, BOS twice", wrong(generation=False, special=True)),
    ("chat_rollout", "padded right", wrong(side="right")),
    ("chat_rollout", "padded right, BOS twice", wrong(side="right", special=True)),
    ("chat_rollout", "the last message only", wrong(last=True)),
    ("chat_rollout", "made from pad", wrong(seen=lambda q, m, t: q != t.pad_token_id)),
    ("chat_rollout", "all True", wrong(seen=lambda q, m, t: q >= 0)),
    ("chat_rollout", "upside down", wrong(seen=lambda q, m, t: m.logical_not())),
    ("chat_rollout", "BOS left out", wrong(seen=lambda q, m, t: m * (q != 0))),
    ("chat_rollout", "padded left", wrong(response_side="left")),
    ("chat_rollout", "padded with 0", wrong(pad=0)),
    ("chat_rollout", "the stop token masked out", wrong(mask=lambda r, n, t: r != t.pad_token_id)),
    ("chat_rollout", "the stop token masked out", wrong(mask=lambda r, n, t: r.ne(t.eos_token_id))),
    ("chat_rollout", "all True", wrong(mask=lambda r, n, t: torch.ones_like(r).bool())),
    ("chat_rollout", "one position too many",
     wrong(mask=lambda r, n, t: torch.arange(r.shape[1]) < n + 1)),
    ("chat_rollout", "one position too few",
     wrong(mask=lambda r, n, t: torch.arange(r.shape[1]) < n - 1)),
    ("chat_rollout", "upside down", wrong(mask=lambda r, n, t: torch.arange(r.shape[1]) >= n)),
    ("chat_rollout", "those of the next token", wrong(shift=1)),
    ("chat_rollout", "one position too early", wrong(shift=-1)),
    ("chat_rollout", "no position ids", wrong(positions=False)),
    ("chat_rollout", "no attention mask", wrong(attend=False)),
    ("chat_rollout", "neither mask nor positions", wrong(attend=False, positions=False)),
    ("chat_rollout", "padding not zero", wrong(zero=False)),
    ("chat_rollout", "negative log-probs", wrong(sign=-1.0)),
    ("chat_rollout", "temperature", wrong(halve=True)),
    ("chat_rollout", "BOS twice", wrong(special=True, shift=1)),  # the first line that is wrong
    ("chat_rollout", "made from pad",
     wrong(seen=lambda q, m, t: q != t.pad_token_id, shift=1, zero=False)),
    ("chat_rollout", "the stop token masked out",
     wrong(mask=lambda r, n, t: r != t.pad_token_id, positions=False)),
    ("chat_rollout", "wrong type", lambda *given: rollout_by_pieces(*given)[:4]),
    ("held_bytes", "half of what is trained", lambda n, a, m: 20 * n if m == "full" else 4 * n + 16 * a),
    ("held_bytes", "LoRA as in full", lambda n, a, m: 36 * n),
    ("held_bytes", "12 bytes a trained number", lambda n, a, m: 28 * n if m == "full" else 4 * n + 24 * a),
    ("held_bytes", "half of what is trained", lambda n, a, m: 20 * n if m == "full" else 4 * n + 16 * a),
    ("held_bytes", "no reference", lambda n, a, m: 32 * n if m == "full" else 4 * n + 32 * a),
    ("held_bytes", "half precision", lambda n, a, m: 34 * n if m == "full" else 2 * n + 32 * a),
    ("held_bytes", "numbers, not bytes", lambda n, a, m: 9 * n if m == "full" else n + 8 * a),
    ("held_bytes", "LoRA with a copy for each model",
     lambda n, a, m: 36 * n if m == "full" else 3 * 4 * n + 32 * a),
    ("held_bytes", "LoRA with a reference of its own",
     lambda n, a, m: 36 * n if m == "full" else 2 * 4 * n + 32 * a),
    ("held_bytes", "LoRA trains everything",
     lambda n, a, m: 36 * n if m == "full" else 16 * (n + 2 * a)),
    ("held_bytes", "the adapter alone", lambda n, a, m: 36 * n if m == "full" else 32 * a),
    ("held_bytes", "the reference trained", lambda n, a, m: 48 * n if m == "full" else 4 * n + 32 * a),
    ("lora_forward", "never off", lambda x, w, a, b, s, on: x @ w.T + s / len(a) * x @ a.T @ b.T),
    ("lora_forward", "α / r on everything",
     lambda x, w, a, b, s, on: s / len(a) * (x @ w.T + x @ a.T @ b.T) if on else x @ w.T),
    ("lora_forward", "the weight not transposed",
     lambda x, w, a, b, s, on: lora_by_loop(x, w.T, a, b, s, on)),
    ("lora_forward", "a whole number for α / r",
     lambda x, w, a, b, s, on: lora_by_loop(x, w, a, b, s // len(a) * len(a), on)),
    ("lora_forward", "upside down", lambda x, w, a, b, s, on: lora_by_loop(x, w, a, b, s, not on)),
    ("lora_forward", "never on", lambda x, w, a, b, s, on: torch.nn.functional.linear(x, w)),
    ("lora_forward", "no scale", lambda x, w, a, b, s, on: x @ (w + on * b @ a).T),
    ("lora_forward", "α alone", lambda x, w, a, b, s, on: x @ (w + on * s * b @ a).T),
    ("lora_forward", "the wrong way round",
     lambda x, w, a, b, s, on: x @ (w + on * len(a) / s * b @ a).T),
    ("lora_forward", "subtracted", lambda x, w, a, b, s, on: lora_by_loop(x, w, a, -b, s, on)),
    ("lora_forward", "in place of the weights",
     lambda x, w, a, b, s, on: s / len(a) * x @ a.T @ b.T if on else x @ w.T),
    ("lora_forward", "multiplied",
     lambda x, w, a, b, s, on: x @ w.T * (s / len(a) * x @ a.T @ b.T) if on else x @ w.T),
    ("lora_forward", "divided by the width",
     lambda x, w, a, b, s, on: lora_by_loop(x, w, a, b, s * len(a) / x.shape[1], on)),
]  # fmt: skip
