"""Answers to the large exercise of lesson 04: its solution with one piece of text replaced.

WRONG: (what is wrong, what the report may call it, text, wrong text). RIGHT: (what is unusual, text,
another text).
"""

RANDPERM = "torch.randperm(len(rollout))"
BATCH = "batch = rollout.rows(rows)"
LOSS = "(actor + config.vf_coef * critic).backward()"
CLIP = "clip_grad_norm_(parameters, config.max_grad_norm)"
ZERO = "            optimizer.zero_grad()\n"
BACKWARD = f"            {LOSS}\n"
ACTOR = "actor = policy_loss(logprobs, batch.logprobs, batch.advantages, mask, config.cliprange)"
CRITIC = "critic = value_loss(values, batch.values, batch.returns, mask, config.cliprange_value)"
EPOCHS = "range(config.num_ppo_epochs)"

# fmt: off
WRONG = [
    ("no zero_grad", "no zero_grad", ZERO, ""),
    ("zero_grad after backward", "zero_grad after backward", ZERO + BACKWARD, BACKWARD + ZERO),
    ("no step", "no optimizer.step", "            optimizer.step()\n", ""),
    ("temperature forgotten", "no temperature", ", config.temperature)", ")"),
    ("rows in order", "not shuffled", RANDPERM, "torch.arange(len(rollout))"),
    ("with replacement", "once an epoch", RANDPERM,
     "torch.randint(len(rollout), (len(rollout),))"),
    ("a seed inside", "same order each time", EPOCHS + ":",
     EPOCHS + ":\n        torch.manual_seed(torch.initial_seed() * 0 + _)"),
    ("one order for all epochs", "reuse the same order",
     f"    for _ in {EPOCHS}:\n        for rows in {RANDPERM}",
     f"    order = {RANDPERM}\n    for _ in {EPOCHS}:\n        for rows in order"),
    ("the last minibatch dropped", "last minibatch", ".split(config.minibatch_size):",
     ".split(config.minibatch_size):\n            if len(rows) < config.minibatch_size < len(rollout):"
     "\n                continue"),
    ("one epoch", "one epoch", EPOCHS, "range(1)"),
    ("one epoch too many", "number of steps", EPOCHS, "range(config.num_ppo_epochs + 1)"),
    ("minibatches ignored", "minibatches ignored", "split(config.minibatch_size)",
     "split(len(rollout))"),
    ("one step an epoch", "one step an epoch", "            optimizer.step()\n",
     "        optimizer.step()\n"),
    ("the whole rollout each time", "once an epoch", BATCH, "batch = rollout"),
    ("parameters in a generator", "not every step clipped",
     '[p for group in optimizer.param_groups for p in group["params"]]',
     '(p for group in optimizer.param_groups for p in group["params"])'),
    ("vf_coef forgotten", "vf_coef missing", "config.vf_coef * critic", "critic"),
    ("wrong at another vf_coef", "the weight of the value loss", "config.vf_coef * critic", "0.11 * critic"),
    ("the last response never seen", "a response is left out", RANDPERM,
     "torch.randperm(max(len(rollout) - 1, len(rollout) // 6 * 6))"),
    ("the critic's sign", "turned round", "actor + config", "actor - config"),
    ("the policy's sign", "turned round", "(actor +", "(-actor +"),
    ("the critic left out", "critic does not learn", LOSS, "actor.backward()"),
    ("the actor left out", "actor does not learn", LOSS, "(config.vf_coef * critic).backward()"),
    ("ratio to itself", "old log-probs recomputed", "policy_loss(logprobs, batch.logprobs",
     "policy_loss(logprobs, logprobs.detach()"),
    ("ratio upside down", "ratio inverted", "policy_loss(logprobs, batch.logprobs",
     "policy_loss(batch.logprobs, logprobs"),
    ("advantages and returns exchanged", "exchanged", ACTOR + "\n            " + CRITIC,
     ACTOR.replace("advantages", "returns") + "\n            "
     + CRITIC.replace("returns", "advantages")),
    ("values against advantages", "against the advantages", "batch.returns", "batch.advantages"),
    ("values against old values", "against the old values", "batch.returns", "batch.values"),
    ("the policy's ε for the values", "policy's ε", "config.cliprange_value", "config.cliprange"),
    ("the values' ε for the policy", "the values' ε", "mask, config.cliprange)",
     "mask, config.cliprange_value)"),
    ("returns for advantages", "returns for advantages", "batch.advantages, mask", "batch.returns, mask"),
    ("old values are the new ones", "values not clipped", "value_loss(values, batch.values",
     "value_loss(values, values.detach()"),
    ("gradients not clipped", "not clipped", f"            torch.nn.utils.{CLIP}\n", ""),
    ("clipped after the step", "not clipped",
     f"            torch.nn.utils.{CLIP}\n            optimizer.step()",
     f"            optimizer.step()\n            torch.nn.utils.{CLIP}"),
    ("only the actor clipped", "only the actor", "clip_grad_norm_(parameters",
     "clip_grad_norm_(policy.parameters()"),
    ("value by value", "value by value", CLIP, "clip_grad_value_(parameters, config.max_grad_norm)"),
    ("whitened again", "whitened again", "batch.advantages, mask",
     "(batch.advantages - batch.advantages[mask].mean()) / batch.advantages[mask].std(), mask"),
    ("a mask of everything", "padding", "mask = batch.response_mask",
     "mask = torch.ones_like(batch.response_mask)"),
    ("the stop token left out", "stop token", "mask = batch.response_mask",
     "mask = batch.response_mask & (batch.response_mask.cumsum(1) < batch.response_mask.sum(1, True))"),
    ("returns rebuilt", "returns rebuilt", "batch.returns", "batch.advantages + batch.values"),
    ("an entropy bonus", "entropy bonus", LOSS,
     "(actor + config.vf_coef * critic + 0.01 * logprobs[mask].mean()).backward()"),
    ("no gradient to the actor", "actor does not learn",
     "logprobs = forward_logprobs(policy, *tokens, config.temperature)",
     "logprobs = forward_logprobs(policy, *tokens, config.temperature).detach()"),
]

RIGHT = [
    ("the rollout's own minibatches", f"            {BATCH}\n", "            batch = rows\n"),
    ("parameters from the models", '[p for group in optimizer.param_groups for p in group["params"]]',
     "[*policy.parameters(), *value_network.parameters()]"),
    ("two backwards", LOSS, "actor.backward()\n            (config.vf_coef * critic).backward()"),
    ("zero_grad after the step", ZERO, "            policy.zero_grad()\n"
     "            value_network.zero_grad()\n"),
    ("the course's losses", ACTOR, "actor = ppo.policy_loss(logprobs, batch.logprobs, batch.advantages, mask,"
     " config.cliprange)[0]"),
    ("the course's critic", CRITIC, "critic = ppo.value_loss(values, batch.values, batch.returns, mask,"
     " config.cliprange_value)[0]"),
    ("rows by a generator", RANDPERM,
     "torch.tensor(sorted(range(len(rollout)), key=lambda _: torch.rand(1)))"),
    ("it returns something", "            optimizer.step()\n",
     "            optimizer.step()\n    return {'loss': actor.item()}\n"),
]
# fmt: on
