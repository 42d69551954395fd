"""Answers to the exercises of lesson 01, as learners write them."""

M, P, K, S = "response_mask position_ids kl_estimate sample_with_cache".split()
F = "forward_logprobs"
COUNT = "mask.cumsum(dim=1) - mask"
STEP = "positions = positions[:, -1:] + 1"
DRAW = "torch.multinomial(logprobs.exp(), 1)"
WHOLE = "actor(ids, attention_mask=mask, position_ids=mask.cumsum(1) - mask.long())"
HERE = "        token ="

# fmt: off
WRONG = [
    (M, "only the EOS counts", "before == 0", "is_eos.bool()"),
    (M, "upside down", "before == 0", "before > 0"),
    (M, "the one after EOS too", "before == 0", "before - is_eos.roll(1, 1) == 0"),
    (M, "0 is padding", "before == 0", "(before == 0) & (response_tensors != 0)"),
    (M, "EOS is always 2", "== eos_token_id", "== 2"),
    (M, "id 0 taken for none", "== eos_token_id", "== (eos_token_id or 1)"),
    (P, "−1 on padding", COUNT, "mask.cumsum(dim=1) - 1"),
    (P, "counts the padding", COUNT, "(1 - mask).cumsum(1) - (1 - mask)"),
    (P, "forgets padding on the right", COUNT,
     "(torch.arange(mask.shape[1]) - (1 - mask).sum(1, True)).clamp(min=0)"),
    (K, "k1 reversed", "        return d\n", "        return -d\n"),
    (K, "k1 at least 0", "        return d\n", "        return d.clamp(min=0)\n"),
    (K, "k2 is k1", "return 0.5 * d.square()", "return d"),
    (K, "exp of each", "torch.exp(-d)", "ref_logprobs.exp() / logprobs.exp()"),
    (K, "clamped", "d = logprobs - ref_logprobs", "d = (logprobs - ref_logprobs).clamp(-20, 20)"),
    (K, "names the axis", "torch.exp(-d) - 1 + d", "torch.exp(-d) - 1 + d + 0 * d.sum(1, True)"),
    (F, "no gradient", ".squeeze(-1)", ".squeeze(-1).detach()"),
    (F, "dropout left on", "    logits = policy(", "    policy.train()\n    logits = policy("),
    (F, "every axis squeezed", ".squeeze(-1)", ".squeeze()"),
    (S, "sampled padding does not count", "    return ids, mask,",
     "    mask = mask & (ids != tokenizer.pad_token_id)\n    return ids, mask,"),
    (S, "a mask of the new token only", '"attention_mask": mask',
     '"attention_mask": mask[:, -new.shape[1]:]'),
    (S, "no position after the prompt", STEP, "positions = None"),
    (S, "all tokens again", "actor(new,", "actor(ids,"),
    (S, "no cache at all", "actor(new, **inputs, past_key_values=cache, use_cache=True)", WHOLE),
    (S, "padded right", 'padding_side="left"', 'padding_side="right"'),
    (S, "greedy", DRAW, "logprobs.argmax(-1, keepdim=True)"),
    (S, "drawn at temperature 1", DRAW, "torch.multinomial(output.logits[:, -1].softmax(-1), 1)"),
    (S, "stop token masked", "torch.cat([mask, running], 1)",
     "torch.cat([mask, running & (new != tokenizer.eos_token_id)], 1)"),
    (S, "padding counts", "torch.cat([mask, running], 1)", "torch.cat([mask, torch.ones_like(running)], 1)"),
    (S, "all stop with the first", "running.any()", "running.all()"),
    (S, "gradient kept", "@torch.no_grad()\n", ""),
    (S, "always to the limit", "running.any() and ", ""),
    (S, "one token at least", HERE,
     "        if not drawn:\n            logprobs[:, tokenizer.eos_token_id] = -30\n"
     "            logprobs = logprobs.log_softmax(-1)\n" + HERE),
    (S, "one draw for all rows", DRAW, DRAW + "[:1].expand(len(ids), 1)"),
    (S, "a seed inside", "    cache =", "    torch.manual_seed(0)\n    cache ="),
]
RIGHT = [
    (M, "a product", "return before == 0",
     "return F.pad(is_eos, (1, 0))[:, :-1].cumsum(1) < 1\n\n\nimport torch.nn.functional as F"),
    (M, "a loop", "return before == 0",
     "return torch.tensor([[eos_token_id not in row[:t].tolist() for t in range(len(row))] for row in"
     " response_tensors])"),
    (P, "1 on padding, as in Hugging Face", COUNT, "(mask.cumsum(1) - 1).masked_fill(mask == 0, 1)"),
    (K, "expm1", "torch.exp(-d) - 1 + d", "torch.expm1(-d) + d"),
    (K, "a table", "d = logprobs - ref_logprobs", "d = logprobs - ref_logprobs\n"
     "    return {'k1': d, 'k2': d**2 / 2, 'k3': (-d).exp() - 1 + d}[estimator]"),
    (F, "the log-sum-exp", "(logits[:, -length - 1 : -1] / temperature).log_softmax(-1)",
     "logits[:, -length - 1 : -1] / temperature\n    logprobs = logprobs - logprobs.logsumexp(-1,"
     " keepdim=True)"),
    (F, "without the last token", "policy(ids, attention_mask=mask, position_ids=positions).logits",
     "policy(ids[:, :-1], attention_mask=mask[:, :-1], position_ids=positions[:, :-1]).logits",
     "[:, -length - 1 : -1]", "[:, -length:]"),
    (S, "Categorical", DRAW, "torch.distributions.Categorical(logits=logprobs).sample()[:, None]"),
    (S, "Gumbel", DRAW,
     "(logprobs - torch.empty_like(logprobs).exponential_().log()).argmax(-1, keepdim=True)"),
    (S, "positions by counting", STEP, "positions = mask.sum(1, keepdim=True) - 1"),
    (S, "in float64", "(output.logits[:, -1] /", "(output.logits[:, -1].double() /"),
]
