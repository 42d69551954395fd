"""Answers to the exercises of lesson 09, as learners write them."""

R, C = "my_rule", "steps_5_and_6"
ERRORS = 'errors = [record["first_ratio_error"] for record in history]'
RULE = "errors[0] < 1e-3 and max(errors) > 1e-3"
PLACE = "rewards[torch.arange(len(scores)), counted.sum(dim=1) - 1] += scores  # not on a pad"
END = "    return rewards, advantages, returns"


def late(metric):
    return f'sum(record["{metric}"] for record in history[-10:]) / 10'


# fmt: off
WRONG = [
    (R, "by the gold score", RULE, late("gold") + " < 0"),
    (R, "a name that is not there", RULE, 'history[-1]["kl_coef"] > 0.2'),
    (R, "a number", RULE, "max(errors)"),
    (R, "half a stub", f"return {RULE}", "return True if max(errors) > 1e-3 else NotImplemented"),
    (R, "takes the last record away", ERRORS, "history.pop()\n    " + ERRORS),
    (R, "always", RULE, "True"),
    (R, "never", RULE, late("kl") + " > 1e9"),
    (R, "beyond the end", RULE, 'history[300]["kl"] > 10'),
    (R, "a rule of section 4", RULE, "max(errors) > 1e-3"),
    (C, "as it was, but for the place", "gamma * following", "following",
     END, "    return rewards, advantages, (advantages + values) * counted"),
    (C, "on every token", PLACE, "rewards += scores[:, None] * counted"),
    (C, "the penalty lost", "] += scores", "] = scores"),
    (C, "no β", "-kl_coef * (", "-("),
    (C, "this value twice", "gamma * following", "gamma * values[:, t]"),
    (C, "rewards for returns", "(advantages + values) * counted  #", "(rewards + values) * counted  #"),
    (C, "not whitened", "    advantages = (advantages - mean)", "    unused = (advantages - mean)"),
    (C, "another order", END, "    return rewards, returns, advantages"),
    (C, "a floor of 1 under the deviation", "(variance + 1e-8).sqrt()",
     "(variance + 1e-8).sqrt().clamp(min=0.5)"),
]
RIGHT = [
    (R, "KL per score gained", RULE,
     late("kl") + ' > 8 * max(0.05, sum(r["score"] for r in history[-10:]) / 10 - history[0]["score"])'),
    (R, "the loss at first", RULE, 'bool(history[0]["policy_loss"] > 0.001)'),
    (R, "the gradient", RULE, 'max(record["grad_norm"] for record in history) > 20'),
    (R, "a tensor", RULE, "(torch.tensor(errors[1:]) > 1e-3).any() & torch.tensor(errors[0] < 1e-3)"),
    (C, "the divisor n", "/ (counted.sum() - 1)", "/ counted.sum()"),
    (C, "a list", END, "    return [rewards, advantages, returns]"),
    (C, "by index", "(advantages - mean) / (variance + 1e-8).sqrt() * counted",
     "torch.where(counted, (advantages - advantages[counted].mean()) / advantages[counted].std(), 0.0)"),
    (C, "a mask in the walk", "running = delta +", "running = counted[:, t] * delta +"),
]
