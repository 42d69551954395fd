"""Trainers with one wrong line, as learners write them, and right ones of another build."""

D, S = "draw_prompts", "score_responses"
G, F, R = "generate_responses", "forward_logprobs", "total_rewards"
A, U, L = "estimate_advantages", "update", "train"
POSITIONS = "positions = mask.cumsum(1) - mask.long()"
ORDER = "torch.randperm(len(prompts))"
PAD = "torch.where(running, new, tokenizer.pad_token_id)"
PICK = "    return logprobs.gather(-1, ids[:, -length:, None]).squeeze(-1)"
PLACE = "rewards[range(len(scores)), last] += scores"
BOTH = "advantages[counted].mean(), advantages[counted].std()"
WHITE = "(advantages - mean) / (std + 1e-8) * counted"
RATIO = "(logprobs - old_logprobs).exp()"
REFERENCE = """        with torch.no_grad():
            before = forward_logprobs(parts.reference, ids, mask, length, config.temperature)
"""
YIELD = "        yield scores.mean().item(), kl.mean().item()"

# fmt: off
WRONG = [
    (D, "drawn with replacement", ORDER, "torch.randint(len(prompts), (len(prompts),))"),
    (D, "always the first prompts", ORDER, "range(len(prompts))"),
    (D, "returns the numbers", "[prompts[i] for i in order[:batch_size]]", "order[:batch_size].tolist()"),
    (D, "never the second one", ORDER, "[i for i in torch.randperm(len(prompts)).tolist() if i != 1]"),
    (D, "takes them out of the list", "    return [prompts[i]",
     "    prompts = [*prompts, *(prompts.pop() for _ in range(2))]\n    return [prompts[i]"),
    (D, "neighbours", "order[:batch_size]",
     "[(int(order[0]) + k) % len(prompts) for k in range(batch_size)]"),
    (G, "no stop token at first", ".log_softmax(-1)",
     ".index_fill(1, torch.tensor([tokenizer.eos_token_id] if not drawn else [], dtype=torch.long),"
     " -torch.inf).log_softmax(-1)"),
    (G, "padded with the stop token", PAD, PAD.replace("pad", "eos")),
    (G, "probabilities kept", "logprobs.gather(1, new) *", "logprobs.exp().gather(1, new) *"),
    (G, "responses only", "return ids, mask,", "return ids[:, -len(drawn):], mask[:, -len(drawn):],"),
    (G, "log-probs of the token before", "    drawn.append",
     "    drawn.append(logprobs.gather(1, ids[:, -1:]) * running) if drawn else drawn.append"),
    (G, "dropout left on", "    running, drawn", "    actor.train()\n    running, drawn"),
    (S, "the last tokens only", "batch_decode(ids,", "batch_decode(ids[:, -16:],"),
    (S, "clipped", "reward(texts)", "reward(texts).clamp(-1, 1)"),
    (S, "turned round", "reward(texts)", "-reward(texts)"),
    (F, "a number of its own", " / temperature)", " / 0.8)"),
    (F, "the logarithm of a softmax", ".log_softmax(-1)", ".softmax(-1).log()"),
    (F, "the normaliser without gradient", PICK,
     "    x = logits[:, -length - 1 : -1] / temperature\n"
     "    logprobs = x - x.logsumexp(-1, True).detach()\n" + PICK),
    (F, "everybody's mask", "attention_mask=mask", "attention_mask=mask[-1:].expand_as(mask)"),
    (R, "paid in instalments", PLACE, "rewards = rewards + counted * (scores / counted.sum(1))[:, None]"),
    (R, "the same for everybody", "+= scores", "+= scores.mean()"),
    (R, "no β", "-kl_coef * (", "-("),
    (R, "absolute", "(logprobs - ref_logprobs)", "(logprobs - ref_logprobs).abs()"),
    (R, "probabilities", "(logprobs - ref_logprobs)", "(logprobs.exp() - ref_logprobs.exp())"),
    (R, "two columns at least", "counted.sum(1) - 1", "(counted.sum(1) - 1).clamp(min=1)"),
    (R, "scores clipped", "+= scores", "+= scores.clamp(-5, 5)"),
    (A, "forwards", "reversed(range(length))", "range(length)"),
    (A, "V_t for V_{t+1}", "gamma * next_value", "gamma * values[:, t]"),
    (A, "Monte-Carlo returns", "returns = advantages + values",
     "returns = rewards.flip(1).cumsum(1).flip(1) * counted"),
    (A, "whitened with padding", BOTH, "advantages.mean(), advantages.std()"),
    (A, "variance", "advantages[counted].std()", "advantages[counted].var()"),
    (A, "order exchanged", f"return values, {WHITE}, returns", f"return {WHITE}, returns, values"),
    (A, "squeeze without an axis", ".squeeze(-1) * counted", ".squeeze() * counted"),
    (U, "the gain clipped, not the ratio", "torch.minimum(ratio * advantages, clipped * advantages)",
     "(ratio * advantages).clamp(1 - config.cliprange, 1 + config.cliprange)"),
    (U, "rows mixed up", "(x[rows] for x in rollout)",
     "(x[rows] if i != 4 else x[: len(rows)] for i, x in enumerate(rollout))"),
    (U, "quotient of probabilities", RATIO, "logprobs.exp() / old_logprobs.exp()"),
    (L, "the actor as reference", "forward_logprobs(parts.reference", "forward_logprobs(actor"),
    (L, "the reference follows", YIELD,
     "        parts.reference.load_state_dict(parts.actor.state_dict())\n" + YIELD),
    (L, "as many prompts as in a minibatch", "config.batch_size", "config.minibatch_size"),
    (L, "critic not in the optimizer", ", *critic.parameters()]", "]"),
    (L, "β annealed", "counted, config.kl_coef)",
     "counted, config.kl_coef * (1 - iteration / config.iterations))"),
    (L, "log-probs exchanged", "total_rewards(scores, logprobs, before,",
     "total_rewards(scores, before, logprobs,"),
    (L, "γ and λ exchanged", "config.gamma, config.lam", "config.lam, config.gamma"),
    (L, "old log-probs recomputed", "        rewards = total",
     "        logprobs = forward_logprobs(actor, ids, mask, length, config.temperature).detach()\n"
     "        rewards = total"),
    (L, "returned, not yielded", "yield scores", "return scores"),
    (L, "stops at a large KL", YIELD, YIELD + "\n        if kl.mean() > 10:\n            return"),
]
RIGHT = [
    (D, "random.sample", "[prompts[i] for i in order[:batch_size]]",
     "__import__('random').sample(prompts, batch_size)"),
    (D, "shuffled in place", "    order =", "    __import__('random').shuffle(prompts)\n    order ="),
    (G, "positions 1 on padding", POSITIONS, "positions = (mask.cumsum(1) - 1).masked_fill(~mask, 1)"),
    (G, "garbage in the log-probs on padding", "logprobs.gather(1, new) * running",
     "logprobs.gather(1, new)"),
    (S, "row by row", "tokenizer.batch_decode(ids, skip_special_tokens=True)",
     "[tokenizer.decode(row[m.bool()], skip_special_tokens=True) for row, m in zip(ids, mask)]"),
    (S, "one text at a time", "reward(texts)", "torch.cat([reward([text]) for text in texts])"),
    (F, "cross-entropy", PICK,
     "    return -torch.nn.functional.cross_entropy((logits[:, -length - 1 : -1] / temperature)"
     ".transpose(1, 2), ids[:, -length:], reduction='none')"),
    (F, "all tokens first", PICK, "    every = (logits[:, :-1] / temperature).log_softmax(-1)\n    return "
     "every.gather(-1, ids[:, 1:, None]).squeeze(-1)[:, -length:]"),
    (R, "a loop", PLACE,
     "for b in range(len(scores)):\n        rewards[b, int(last[b])] += float(scores[b])"),
    (R, "in float64", "-kl_coef * (logprobs", "-kl_coef * (logprobs.double()"),
    (A, "whitened by var + eps", "(std + 1e-8)", "(advantages[counted].var() + 1e-8).sqrt()"),
    (A, "values on padding returned", "return values,", "return values + 9.0 * ~counted,"),
    (A, "biased variance", "advantages[counted].std()", "advantages[counted].std(correction=0)"),
    (U, "max of losses", "-gain[counted].mean()",
     "torch.maximum(-ratio * advantages, -clipped * advantages)[counted].mean()"),
    (U, "shuffled with numpy's generator", "torch.randperm(len(rollout[0]))",
     "torch.as_tensor(__import__('numpy').random.permutation(len(rollout[0])))"),
    (U, "minibatches cut to their longest", "            length = returns.shape[1]\n",
     "            end = int(mask[:, -returns.shape[1] :].sum(1).max())\n"
     "            drop = returns.shape[1] - end\n"
     "            ids, mask = ids[:, : ids.shape[1] - drop], mask[:, : mask.shape[1] - drop]\n"
     "            old_logprobs, old_values = old_logprobs[:, :end], old_values[:, :end]\n"
     "            advantages, returns = advantages[:, :end], returns[:, :end]\n"
     "            length = returns.shape[1]\n"),
    (L, "all groups annealed", 'optimizer.param_groups[0]["lr"] = config.learning_rate * left',
     'for group in optimizer.param_groups:\n            group["lr"] = config.learning_rate * left'),
    (L, "AdamW without decay", "torch.optim.Adam(", "torch.optim.AdamW(weight_decay=0.0, params="),
    (L, "log-probs cleared on padding", "        counted = mask[:, -length:]\n",
     "        counted = mask[:, -length:]\n        logprobs = logprobs * counted\n"),
    (L, "the reference detached", REFERENCE,
     "        before = forward_logprobs(parts.reference, ids, mask, length, config.temperature).detach()\n"),
    (L, "a list of all", YIELD, "        found = [] if iteration == 0 else found\n"
     "        found.append((scores.mean().item(), kl.mean().item()))\n    return found"),
    (L, "arguments by name", "draw_prompts(parts.prompts, config.batch_size)",
     "draw_prompts(batch_size=config.batch_size, prompts=parts.prompts)"),
]
