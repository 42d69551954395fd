"""Answers to the exercises of lesson 11, as learners write them."""

# fmt: off
REWARD = "kl_coef * (logprobs - ref_logprobs)"
MARGIN = "kl_coef * ((chosen - ref_chosen) - (rejected - ref_rejected))"
INNER = "((chosen - ref_chosen) - (rejected - ref_rejected))"
LOSS = "-torch.nn.functional.logsigmoid(margin).mean()"
SUM = "torch.where(mask[:, 1:], taken, 0.0).sum(dim=1)"
LOGPROBS = "model(tokens[:, :-1]).logits.log_softmax(-1)"
REFERENCE = "    with torch.no_grad():\n"
REFERENCE += "        ref_chosen, ref_rejected = sequence_logprobs(reference).chunk(2)\n"

WRONG = [
    ("implicit_reward", "β on the policy alone", REWARD, "kl_coef * logprobs - ref_logprobs"),
    ("implicit_reward", "β on the reference alone", REWARD, "logprobs - kl_coef * ref_logprobs"),
    ("implicit_reward", "log-probs divided", REWARD, "kl_coef * torch.div(logprobs, ref_logprobs)"),
    ("implicit_reward", "the first reference for all", REWARD, "kl_coef * (logprobs - ref_logprobs[0])"),
    ("implicit_reward", "exp and log again", REWARD, "kl_coef * (logprobs.exp() / ref_logprobs.exp()).log()"),
    ("implicit_reward", "detached", REWARD, "kl_coef * (logprobs.detach() - ref_logprobs)"),

    ("dpo_loss", "reference added", INNER, "((chosen - rejected) + (ref_chosen - ref_rejected))"),
    ("dpo_loss", "β on the policy alone", MARGIN,
     "kl_coef * (chosen - rejected) - (ref_chosen - ref_rejected)"),
    ("dpo_loss", "sigmoid, then log", LOSS, "-margin.sigmoid().log().mean()"),

    ("train_dpo", "squeeze without an axis", "squeeze(-1)", "squeeze()"),
    ("train_dpo", "σ, then log", LOSS, "-margin.sigmoid().log().mean()"),
    ("train_dpo", "a tenth of the rate", "lr=learning_rate", "lr=learning_rate / 10"),
    ("train_dpo", "clipped", "optimizer.step()", "torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)\n"
     "        optimizer.step()"),
    ("train_dpo", "the caller's policy", "    policy = deepcopy(policy)\n", ""),
]

RIGHT = [
    ("implicit_reward", "brackets opened", REWARD, "kl_coef * logprobs - kl_coef * ref_logprobs"),
    ("implicit_reward", "in float64", REWARD, "(logprobs.double() - ref_logprobs.double()) * kl_coef"),
    ("dpo_loss", "binary cross entropy", LOSS, "torch.nn.functional.binary_cross_entropy_with_logits(margin, "
     "torch.ones_like(margin))"),
    ("dpo_loss", "softplus, pair by pair", LOSS,
     "sum(torch.nn.functional.softplus(-m) for m in margin) / len(margin)"),
    ("train_dpo", "the whole sequence in, cross entropy with −100", f"""logprobs = {LOGPROBS}
        taken = logprobs.gather(-1, tokens[:, 1:, None]).squeeze(-1)
        return {SUM}""", """targets = tokens[:, 1:].masked_fill(~mask[:, 1:], -100)
        logits = model(tokens).logits[:, :-1].transpose(1, 2)
        return -torch.nn.functional.cross_entropy(logits, targets, reduction="none").sum(dim=1)"""),
    ("train_dpo", "the reference asked at every step, chosen and rejected apart", REFERENCE, "",
     "        chosen, rejected =", "        with torch.no_grad():\n            ref_chosen, ref_rejected = "
     "sequence_logprobs(reference).chunk(2)\n        chosen, rejected ="),
    ("train_dpo", "steps by hand", "        optimizer.step()\n",
     "        for weight in policy.parameters():\n            weight.data -= learning_rate * weight.grad\n"),
    ("train_dpo", "the prompt counted too: it cancels", SUM,
     "torch.where(mask.flip(1).cumsum(1).flip(1)[:, 1:] > 0, taken, 0.0).sum(dim=1)"),
]
