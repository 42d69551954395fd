"""Answers to lesson 03's exercises: edits of the solution (old, new), two edits, or a whole source."""

# fmt: off
SQUARES = "torch.where(mask, x - mean, 0.0).square()"
VAR = "squares.sum() / (count - 1).clamp(min=1)"
WHITE = "torch.where(mask, whitened, 0.0)"
ERROR, TOTAL = "(returns - values)[mask].var()", "returns[mask].var()"
SHARE = "1 - unexplained / returns[mask].var()"
RETURNS = "returns = torch.where(mask, advantages + values, 0.0)"
SCALED = "scaled = centred if std < floor else centred / (var + 1e-8).sqrt()"
EXPLAINED = "explained = 1 - var / variance(returns[mask]).clamp(min=1e-12)"
WRITTEN_OUT = """\
def whiten_rollout(advantages, values, mask, floor):
    def variance(x):
        return (x - x.mean()).square().sum() / max(len(x) - 1, 1)

    returns = torch.where(mask, advantages + values, 0.0)
    counted = advantages[mask]
    mean, var = counted.mean(), variance(counted)
    std = var.sqrt()
    centred = advantages - mean
    scaled = centred if std < floor else centred / (var + 1e-8).sqrt()
    whitened = torch.where(mask, scaled, 0.0)
    pushed_up = (whitened[mask] > 0).float().mean()
    explained = 1 - var / variance(returns[mask]).clamp(min=1e-12)
    return whitened, returns, torch.stack([mean, std, pushed_up, explained])
"""


def written_out(words: str, *edit: str) -> tuple:
    """An answer to `whiten_rollout` that calls none of the lesson's functions: that text, edited."""
    old, new = edit or ("", "")
    assert old in WRITTEN_OUT
    return ("whiten_rollout", words, WRITTEN_OUT.replace(old, new) if old else WRITTEN_OUT)


WRONG = [
    ("masked_var", "the mean of everything", "masked_mean(x, mask)", "x.mean()"),
    ("masked_var", "zeros counted", VAR, "torch.where(mask, x, torch.zeros_like(x)).var()"),
    ("masked_var", "torch's own, NaN for one token", VAR, "x[mask].var()"),
    ("masked_var", "the rows' variances", VAR,
     "torch.stack([a[m].var() if m.sum() > 1 else a.sum() * 0 for a, m in zip(x, mask)]).mean()"),
    ("masked_var", "mean of squares minus square of the mean", VAR,
     "(x[mask].square().mean() - x[mask].mean() ** 2) * count / (count - 1).clamp(min=1)"),
    ("masked_var", "0 for fewer than three", VAR, "x[mask].var() if count > 2 else x.sum() * 0"),
    ("masked_var", "distances cut off at 5", "x - mean", "(x - mean).clamp(-20, 20)"),
    ("masked_var", "a product with the mask", SQUARES, "((x - mean) * mask).square()"),
    ("whiten_advantages", "padding counted", "advantages[mask]", "advantages.flatten()"),
    ("whiten_advantages", "clipped at 5", WHITE, "torch.where(mask, whitened.clamp(-5, 5), 0.0)"),
    ("whiten_advantages", "a product with the mask", WHITE, "whitened * mask"),
    ("explained_variance", "padding and all", ERROR, "(returns - values).var()", TOTAL, "returns.var()"),
    ("explained_variance", "the critic's share", SHARE, "values[mask].var() / returns[mask].var()"),
    ("explained_variance", "at least 0", SHARE, f"({SHARE}).clamp(min=0)"),
    ("explained_variance", "at least −5", SHARE, f"({SHARE}).clamp(min=-5)"),
    ("explained_variance", "products with the mask", ERROR, "((returns - values) * mask).var()",
     TOTAL, "(returns * mask).var()"),
    ("explained_variance", "a safe divisor", TOTAL, "(returns[mask].var() + 0.01)"),
    ("explained_variance", "n and n − 1", ERROR, "(returns - values)[mask].var(unbiased=False)"),
    written_out("clipped at 5 deviations", "mask, scaled", "mask, scaled.clamp(-5, 5)"),
    written_out("explained at least −0.1", EXPLAINED,
     EXPLAINED + "\n    explained = explained.clamp(min=-0.1)"),
    written_out("returns masked by a product", RETURNS, "returns = (advantages + values) * mask"),
    written_out("whitened not masked", "torch.where(mask, scaled, 0.0)", "scaled"),
    written_out("padding counted", "advantages[mask]", "advantages.flatten()"),
    written_out("variance against the floor", "std < floor", "var < floor"),
    written_out("zeros below the floor", "scaled = centred if", "scaled = 0 * centred if"),
    written_out("deviation clamped to the floor", SCALED,
     "scaled = centred / std.clamp(min=floor)"),
    written_out("share over padding", "(whitened[mask] > 0)", "(whitened > 0)"),
    written_out("the last two exchanged", "pushed_up, explained]", "explained, pushed_up]"),
    written_out("outputs exchanged", "return whitened, returns,", "return returns, whitened,"),
    written_out("a list of gauges", "torch.stack([mean, std, pushed_up, explained])",
     "[mean.item(), std.item(), pushed_up.item(), explained.item()]"),
]

RIGHT = [
    ("masked_var", "moments in double", VAR,
     "((x[mask].double() ** 2).sum() - x[mask].double().sum() ** 2 / count) / (count - 1).clamp(min=1)"),
    ("masked_var", "torch's own", VAR, "x[mask].var() if count > 1 else torch.zeros(())"),
    ("whiten_advantages", "epsilon outside, double", WHITE,
     "torch.where(mask, (advantages - mean) / (var.double().sqrt() + 1e-8), 0.0)"),
    ("explained_variance", "over n, both", ERROR, "(values - returns)[mask].double().var(unbiased=False)",
     TOTAL, "returns[mask].var(unbiased=False)"),
    written_out("written out"),
    written_out("gauges from plain numbers", "torch.stack([mean, std, pushed_up, explained])",
     "torch.tensor([mean.item(), std.item(), pushed_up.item(), explained.item()])"),
    written_out("filled in", RETURNS,
     "returns = torch.zeros_like(advantages)\n    returns[mask] = (advantages + values)[mask]"),
    written_out("the residual written out", "1 - var /", "1 - variance((returns - values)[mask]) /"),
]
# fmt: on
