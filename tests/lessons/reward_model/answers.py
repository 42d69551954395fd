"""Answers to the exercises of lesson 05, as learners write them."""

# fmt: off
P, L, A = "preference_probability", "bradley_terry_loss", "pair_accuracy"
C, F = "ceilings", "fit_pairs"
CHANCE = "torch.sigmoid(score_a - score_b)"
LOSS = "-torch.nn.functional.logsigmoid(chosen - rejected).mean()"
WINS = "wins, ties = chosen > rejected, chosen == rejected"
SHARE = "(wins.float() + 0.5 * ties.float()).mean()"
AGREE = "(p**2 + (1 - p) ** 2).mean()"
FIT_LOSS = "-torch.nn.functional.logsigmoid(c - r).mean()"
R = "r = score(rejected[rows], rejected_mask[rows])"
CLEAR = "        optimizer.zero_grad()\n"
STEP = "        optimizer.step()\n"
RATE = "learning_rate * (1 - i / len(batches))"
WRONG = [
    (P, "exp overflows", CHANCE, "score_a.exp() / (score_a.exp() + score_b.exp())"),
    (P, "both chances", CHANCE, "torch.softmax(torch.stack([score_a, score_b], -1), -1)"),
    (P, "scores divided", "score_a - score_b", "score_a / score_b"),
    (P, "sorted", "score_a - score_b", "score_a.sort().values - score_b.sort().values"),
    (P, "by item", CHANCE, "torch.tensor([1 / (1 + 2.718281828459 ** (b - a))"
     " for a, b in zip(score_a.tolist(), score_b.tolist())])"),

    (L, "log of sigmoid", LOSS, "-torch.sigmoid(chosen - rejected).log().mean()"),
    (L, "the size of the difference", "(chosen - rejected)", "((chosen - rejected).abs())"),
    (L, "a penalty added", LOSS, f"{LOSS} + 0.05 * (chosen**2).mean()"),
    (L, "in bits", LOSS, f"{LOSS} / 0.6931471805599453"),
    (L, "the log of a difference", LOSS, "-(chosen - rejected).log().mean()"),

    (A, "ties count a quarter", "0.5", "0.25"),
    (A, "all right or not", SHARE, "wins.all().float()"),
    (A, "nearly equal is a tie", WINS, "ties = torch.isclose(chosen, rejected, rtol=0, atol=1e-3)\n"
     "    wins = (chosen > rejected) & ~ties"),

    (C, "exchanged", "return best, agreement", "return agreement, best"),
    (C, "the square of the mean", AGREE, "p.mean() ** 2 + (1 - p.mean()) ** 2"),
    (C, "they differ", AGREE, "(2 * p * (1 - p)).mean()"),

    (F, "no head", "head(hidden[:, 0]).squeeze(-1)", "hidden[:, 0].sum(-1)"),
    (F, "sigmoid of the score", ".squeeze(-1)", ".squeeze(-1).sigmoid()"),
    (F, "chosen twice", R, "r = score(chosen[rows], chosen_mask[rows])"),
    (F, "another's rejected", "(c - r)", "(c - r.roll(1))"),
    (F, "log of sigmoid", FIT_LOSS, "-torch.log(torch.sigmoid(c - r)).mean()"),
    (F, "encoder under no_grad", "head(hidden[:, 0])", "head(hidden[:, 0].detach())"),
    (F, "rate a step early", RATE, "learning_rate * (1 - (i + 1) / len(batches))"),
    (F, "the last loss", "torch.stack(losses)", "losses[-1]"),
]

BY_HAND = """
def fit_pairs(encoder, head, chosen, chosen_mask, rejected, rejected_mask, batches, rate):
    parameters = [*encoder.parameters(), head.weight]  # the bias cancels
    means, squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    def score(ids, mask):
        return encoder(ids, mask).last_hidden_state[:, 0] @ head.weight[0]
    kept = []
    for i, rows in enumerate(batches, start=1):
        d = score(chosen[rows], chosen_mask[rows]) - score(rejected[rows], rejected_mask[rows])
        kept.append(torch.nn.functional.softplus(-d).sum() / len(rows))
        gradients = torch.autograd.grad(kept[-1], parameters)
        lr = rate * (1 - (i - 1) / len(batches))
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, means, squares):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p -= lr * (m / (1 - 0.9**i)) / ((v / (1 - 0.999**i)).sqrt() + 1e-8)
    return torch.stack(kept).detach()
"""
RIGHT = [
    (P, "softmax of two", CHANCE, "torch.stack([score_a, score_b], dim=-1).softmax(dim=-1)[..., 0]"),
    (P, "tanh of half", CHANCE, "0.5 + 0.5 * torch.tanh((score_a - score_b) / 2)"),
    (L, "softplus", LOSS, "torch.nn.functional.softplus(rejected - chosen).mean()"),
    (L, "cross-entropy of two", LOSS, "torch.nn.functional.cross_entropy("
     "torch.stack([chosen, rejected], 1), torch.zeros(len(chosen), dtype=torch.long))"),
    (A, "signs", SHARE, "0.5 + 0.5 * torch.sign(chosen - rejected).mean()"),
    (A, "heaviside", SHARE, "torch.heaviside(chosen - rejected, torch.tensor(0.5)).mean()"),
    (C, "a half and the distance", "torch.maximum(p, 1 - p).mean()", "(0.5 + (p - 0.5).abs()).mean()"),
    (C, "one less the difference", AGREE, "1 - (2 * p * (1 - p)).mean()"),
    (F, "Adam by hand", BY_HAND),
    (F, "cleared after the step", CLEAR, "", STEP, STEP + CLEAR),
    (F, "BCE with logits", FIT_LOSS,
     "torch.nn.functional.binary_cross_entropy_with_logits(c - r, torch.ones_like(c))"),
]
