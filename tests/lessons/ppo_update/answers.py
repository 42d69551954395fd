"""Answers to lesson 04's exercises: edits of the solution (old, new), two edits, or a whole source."""

# fmt: off
LOSS = "-(logits.log_softmax(-1)[words] * advantages).mean()"
LOG = "logits.log_softmax(-1)[words]"
RATIO = "log_ratio.exp()"
DIFFERENCE = "logprobs - old_logprobs"
LOG_RATIO = "torch.where(mask, logprobs - old_logprobs, 0.0)"
CLIP = "rho.clamp(1 - cliprange, 1 + cliprange)"
GAIN = "torch.minimum(gain, clipped_gain)"
MEAN = "-torch.minimum(gain, clipped_gain)[mask].mean()"
GOOD, BAD = "(ratio > 1 + cliprange) & (advantages > 0)", "(ratio < 1 - cliprange) & (advantages < 0)"
HIT = "(too_likely | too_unlikely)"
SHARE = "(too_likely | too_unlikely)[mask].float().mean()"
NEAR = "torch.clamp(values, old_values - cliprange_value, old_values + cliprange_value)"
LARGER = "torch.maximum((values - returns).square(), (near - returns).square())"
ENTROPY = "-(logprobs.exp() * logprobs).sum(dim=-1)"
RANDPERM = "torch.randperm(len(rollout))"
BATCH = "batch = rollout.rows(rows)"
NORM = "clip_grad_norm_(parameters, config.max_grad_norm)"
EPOCHS = "range(config.num_ppo_epochs)"
PARAMETERS = '[p for group in optimizer.param_groups for p in group["params"]]'

WRONG = [
    ("reinforce_loss", "a baseline", "advantages).mean", "(advantages - advantages.mean())).mean"),
    ("reinforce_loss", "over the vocabulary", LOSS, f"-({LOG} * advantages).sum() / len(logits)"),
    ("reinforce_loss", "log of a softmax", "log_softmax(-1)", "softmax(-1).log()"),
    ("reinforce_loss", "sizes of the advantages", "* advantages", "* advantages.abs()"),
    ("reinforce_loss", "advantages cut off at 10", "* advantages", "* advantages.clamp(-10, 10)"),
    ("reinforce_loss", "a number", LOSS, f"({LOSS}).item()"),
    ("ratio", "log-probs divided", RATIO, "torch.where(mask, logprobs / old_logprobs, 1.0)"),
    ("ratio", "probabilities divided", RATIO, "torch.where(mask, logprobs.exp() / old_logprobs.exp(), 1.0)"),
    ("ratio", "0 on padding", RATIO, "log_ratio.exp() * mask"),
    ("ratio", "itself", DIFFERENCE, "logprobs - logprobs.detach()"),
    ("ratio", "of the whole response", RATIO, "log_ratio.sum(1, True).exp().expand_as(mask)"),
    ("ratio", "a product with the mask", LOG_RATIO, "(logprobs - old_logprobs) * mask"),
    ("ratio", "kept finite", RATIO, "log_ratio.clamp(max=20).exp()"),
    ("ratio", "two to the power", RATIO, "2 ** log_ratio"),
    ("policy_loss", "itself", DIFFERENCE, "logprobs - logprobs.detach()"),
    ("policy_loss", "REINFORCE", GAIN, "(logprobs * advantages)"),
    ("policy_loss", "the log-ratio clipped", CLIP, "rho.log().clamp(-cliprange, cliprange).exp()"),
    ("policy_loss", "padding in the mean", GAIN + "[mask]", GAIN),
    ("policy_loss", "per response", MEAN, f"-(({GAIN} * mask).sum(1) / mask.sum(1)).mean()"),
    ("policy_loss", "whitened again", "    gain = rho *",
     "    advantages = (advantages - advantages[mask].mean()) /"
     " advantages[mask].std()\n    gain = rho *"),
    ("policy_loss", "tokens of A = 0 left out", "[mask]", "[mask & (advantages != 0)]"),
    ("policy_loss", "exp of padding", LOG_RATIO, DIFFERENCE),
    ("policy_loss", "a ratio of 10 at most", "0.0).exp()", "0.0).exp().clamp(max=10)"),
    ("clip_fraction", "what is left", HIT, f"(~{HIT})"),
    ("clip_fraction", "at the limit too", GOOD, GOOD.replace("ratio >", "ratio >="), BAD,
     BAD.replace("ratio <", "ratio <=")),
    ("clip_fraction", "0.2 written in", GOOD, GOOD.replace("1 + cliprange", "1.2"), BAD,
     BAD.replace("1 - cliprange", "0.8")),
    ("clip_fraction", "padding counted", SHARE, f"{HIT}.float().mean()"),
    ("clip_fraction", "of the good alone", SHARE, f"({HIT} & mask).sum() / (mask & (advantages > 0)).sum()"),
    ("clip_fraction", "responses", SHARE, f"({HIT} & mask).any(1).float().mean()"),
    ("clip_fraction", "clear advantages alone", "advantages > 0", "advantages > 1e-3"),
    ("value_loss", "as a ratio", NEAR, "torch.clamp(values, 1 - cliprange_value, 1 + cliprange_value)"),
    ("value_loss", "above only", NEAR, "torch.minimum(values, old_values + cliprange_value)"),
    ("value_loss", "squares added", LARGER, "(values - returns).square() + (near - returns).square()"),
    ("value_loss", "padding", "larger[mask]", "larger"),
    ("value_loss", "per response", "larger[mask].mean()", "((larger * mask).sum(1) / mask.sum(1)).mean()"),
    ("value_loss", "advantages as the target", LARGER,
     "torch.maximum((values - returns + old_values).square(),"
     " (near - returns + old_values).square())"),
    ("value_loss", "detached", LARGER,
     "torch.maximum((values.detach() - returns).square(), (near - returns).square())"),
    ("entropy", "logits for p", "logprobs.exp() *", "logits *"),
    ("entropy", "log of a softmax", "logits.log_softmax(dim=-1)", "logits.softmax(-1).log()"),
    ("entropy", "an epsilon", "logits.log_softmax(dim=-1)", "(logits.softmax(-1) + 1e-6).log()"),
    ("ppo_update_step", "rows in order", RANDPERM, "torch.arange(len(rollout))"),
    ("ppo_update_step", "with replacement", RANDPERM, "torch.randint(len(rollout), (len(rollout),))"),
    ("ppo_update_step", "a seed inside", EPOCHS + ":", EPOCHS + ":\n        torch.manual_seed(_)"),
    ("ppo_update_step", "one order for all epochs", f"    for _ in {EPOCHS}:\n        for rows in {RANDPERM}",
     f"    order = {RANDPERM}\n    for _ in {EPOCHS}:\n        for rows in order"),
    ("ppo_update_step", "one epoch", EPOCHS, "range(1)"),
    ("ppo_update_step", "no minibatches", "split(config.minibatch_size)", "split(len(rollout))"),
    ("ppo_update_step", "the whole rollout each time", BATCH, "batch = rollout"),
    ("ppo_update_step", "values against advantages", "batch.returns", "batch.advantages"),
    ("ppo_update_step", "values against old values", "batch.returns", "batch.values"),
    ("ppo_update_step", "the policy's ε for the values", "config.cliprange_value", "config.cliprange"),
    ("ppo_update_step", "the values' ε for the policy", "mask, config.cliprange)",
     "mask, config.cliprange_value)"),
    ("ppo_update_step", "returns for advantages", "batch.advantages", "batch.returns"),
    ("ppo_update_step", "old values are the new ones", "values, batch.values", "values, values.detach()"),
    ("ppo_update_step", "value by value", NORM, "clip_grad_value_(parameters, config.max_grad_norm)"),
    ("ppo_update_step", "a mask of everything", "mask = batch.response_mask",
     "mask = torch.ones_like(batch.response_mask)"),
    ("ppo_update_step", "an optimizer of its own", "    for _ in",
     "    optimizer = torch.optim.SGD(parameters, lr=1e-3)\n    for _ in"),
]

RIGHT = [
    ("reinforce_loss", "cross-entropy", LOSS,
     "(torch.nn.functional.cross_entropy(logits.expand(len(words), -1), words,"
     " reduction='none') * advantages).mean()"),
    ("reinforce_loss", "another number, the same gradient", LOSS,
     f"-(({LOG} - {LOG}.detach()).exp() * advantages).mean()"),
    ("reinforce_loss", "a distribution", LOG,
     "torch.distributions.Categorical(logits=logits).log_prob(words)"),
    ("ratio", "filled with zeros first", LOG_RATIO, "(logprobs - old_logprobs).masked_fill(~mask, 0.0)"),
    ("policy_loss", "by the sign", MEAN,
     "-(torch.where(advantages > 0, rho.clamp(max=1 + cliprange), rho.clamp("
     "min=1 - cliprange)) * advantages)[mask].mean()"),
    ("policy_loss", "the larger of two losses", MEAN,
     "torch.where(mask, torch.max(-gain, -clipped_gain), 0.0).sum() / mask.sum()"),
    ("clip_fraction", "by sides, double", SHARE,
     "((ratio - 1) * advantages.sign() > cliprange)[mask].double().mean()"),
    ("clip_fraction", "by gains", HIT,
     "(ratio.clamp(1 - cliprange, 1 + cliprange) * advantages < ratio * advantages)"),
    ("value_loss", "by errors", "0.5 * larger[mask].mean()",
     "torch.stack([values - returns, near - returns]).abs().amax(0)[mask].square().mean() / 2"),
    ("value_loss", "as TRL", NEAR,
     "old_values + (values - old_values).clamp(-cliprange_value, cliprange_value)"),
    ("entropy", "logsumexp", ENTROPY, "logits.logsumexp(-1) - (logits.softmax(-1) * logits).sum(-1)"),
    ("entropy", "a distribution", ENTROPY, "torch.distributions.Categorical(logits=logits).entropy()"),
    ("ppo_update_step", "the rollout's own minibatches", f"{RANDPERM}.split(config.minibatch_size)",
     "rollout.minibatches(config.minibatch_size)", BATCH, "batch = rows"),
    ("ppo_update_step", "parameters from the models", PARAMETERS,
     "[*policy.parameters(), *value_network.parameters()]"),
    ("ppo_update_step", "two backwards", "(actor + config.vf_coef * critic).backward()",
     "actor.backward()\n            (config.vf_coef * critic).backward()"),
    ("ppo_update_step", "models cleared", "            optimizer.zero_grad()\n",
     "            policy.zero_grad()\n            value_network.zero_grad()\n"),
    ("ppo_update_step", "rows by a generator", RANDPERM,
     "torch.tensor(sorted(range(len(rollout)), key=lambda _: torch.rand(1)))"),
    ("ppo_update_step", "it returns something", "            optimizer.step()\n",
     "            optimizer.step()\n    return {'loss': actor.item()}\n"),
]
# fmt: on
