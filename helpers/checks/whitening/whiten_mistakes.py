"""Well-known wrong versions of the large exercise of notebook 03, each with what to say about it."""

import torch

from helpers.checks.judging.exercise import Mistake
from helpers.checks.whitening.whiten_slips import (
    FLOOR,
    biased_scaled,
    correlation,
    everything,
    exchanged,
    of_returns,
    of_values,
    rollout_with,
    row_statistics,
    scaled,
    share_explained,
    spread,
    whitened_by_row,
    with_zeros,
)

# fmt: off
MISTAKES = [Mistake(*entry) for entry in [
    ("returns from whitened advantages", "You added the values to the whitened advantages. The returns"
     " are the critic's targets, in reward units: form them first.",
     rollout_with(target=lambda a, w, v, k: w + v)),
    ("values left out of the returns", "Your returns are the advantages alone; returns = advantages +"
     " values.", rollout_with(target=lambda a, w, v, k: a)),
    ("values subtracted", "Returns are advantages plus values; you subtracted.",
     rollout_with(target=lambda a, w, v, k: a - v)),
    ("whitened and returns exchanged", "Your first two results are exchanged: return whitened, returns,"
     " gauges.", exchanged),
    ("returns whitened", "You whitened the returns. The critic learns in reward units: leave them as they"
     " are.", rollout_with(target=lambda a, w, v, k: scaled(a + v, k))),
    ("values whitened", "You whitened the values before adding them; returns = advantages + values, both as"
     " they came.", rollout_with(target=lambda a, w, v, k: a + scaled(v, k))),
    ("explained variance of the advantages", "The critic's target is the returns, not the advantages:"
     " 1 − Var(returns − values)/Var(returns).",
     rollout_with(explained=lambda a, v, r, k: share_explained(v, a, k))),
    ("divided by Var(advantages)", "Divide by the variance of the returns, not of the advantages.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread((r - v)[k]) / spread(a[k]).clamp(min=1e-12))),
    ("explained variance of whitened returns", "You whitened before you explained; take returns in reward"
     " units.", rollout_with(explained=lambda a, v, r, k: share_explained(v, scaled(r, k), k))),
    ("explained variance of whitened returns", "You formed the returns of the last gauge from whitened"
     " advantages; take returns in reward units.",
     rollout_with(explained=lambda a, v, r, k: share_explained(v, scaled(a, k) + v, k))),
    ("statistics over padding", "Your mean and deviation are over all positions; only counted ones"
     " count.", rollout_with(pick=everything)),
    ("padding as zeros", "You set the padding to 0, but it still counts in mean and deviation.",
     rollout_with(pick=with_zeros)),
    ("biased variance", "You divided by n; the unbiased variance divides by n − 1.",
     rollout_with(var=lambda x: (x - x.mean()).square().mean())),
    ("mean not subtracted in the variance", "You averaged the squares; subtract the mean first.",
     rollout_with(var=lambda x: x.square().sum() / max(len(x) - 1, 1))),
    ("variance for the standard deviation", "The second gauge is the variance; take its root.",
     rollout_with(gauge=lambda m, s, v, share, ev: [m, v, share, ev])),
    ("divided by the variance", "You divided by the variance; divide by its square root.",
     rollout_with(white=lambda a, k: (a - a[k].mean()) / (spread(a[k]) + 1e-8))),
    ("mean kept", "You only divided; subtract the mean too.",
     rollout_with(white=lambda a, k: a / (spread(a[k]) + 1e-8).sqrt())),
    ("only centred", "Where the deviation is above `floor` you subtract the mean only; divide there.",
     rollout_with(reached=lambda v, s, floor: True)),
    ("one whitening per sequence", "You whitened each row by itself, so that good and bad responses look"
     " alike; take the statistics of the whole batch.", rollout_with(white=whitened_by_row)),
    ("share over padding", "Your share counts padding too: divide by the counted tokens.",
     rollout_with(up=lambda w, a, k: (w > 0).float().mean())),
    ("share of the raw advantages", "You counted raw advantages above 0; count whitened ones, which are"
     " what pushes.", rollout_with(up=lambda w, a, k: (a[k] > 0).float().mean())),
    ("share pushed down", "You counted what is below 0; count what is above.",
     rollout_with(up=lambda w, a, k: (w[k] < 0).float().mean())),
    *[("mean of the rows' deviations", "You averaged each row's deviation; take one over all counted"
         " tokens.",
       rollout_with(rows_var=of)) for of in (
        lambda a, k: row_statistics(a, k, lambda x: spread(x).sqrt()).mean().square(),
        lambda a, k: row_statistics(a, k, spread).mean(),
    )],
    ("mean of the rows' means", "You averaged each row's mean; take one mean over all counted tokens.",
     rollout_with(rows_mean=lambda a, k: row_statistics(a, k, torch.mean).mean())),
    ("statistics of the returns", "Mean and deviation are those of the returns; take those of the"
     " advantages.", of_returns),
    ("statistics of the values", "Mean and deviation are those of the values; take those of the"
     " advantages.", of_values),
    ("values − advantages", "You subtracted the advantages from the values; add them.",
     rollout_with(target=lambda a, w, v, k: v - a)),
    ("returns are the values", "Your returns are the values alone; add the advantages.",
     rollout_with(target=lambda a, w, v, k: v)),
    ("returns centred", "You subtracted the mean advantage first; the returns are the raw ones plus V.",
     rollout_with(target=lambda a, w, v, k: a - a[k].mean() + v)),
    ("returns scaled", "You divided the returns by a deviation; they are in reward units.",
     rollout_with(target=lambda a, w, v, k: (a + v) / (spread(a[k]) + 1e-8).sqrt())),
    ("returns from divided advantages", "You divided the advantages first; the returns are the raw ones"
         " plus V.",
     rollout_with(target=lambda a, w, v, k: a / (spread(a[k]) + 1e-8).sqrt() + v)),
    ("returns from whitened advantages", "You added the values to the whitened advantages. The returns"
     " are the critic's targets, in reward units: form them first.",
     rollout_with(target=lambda a, w, v, k: biased_scaled(a, k) + v)),
    ("last column left out", "Your statistics leave out the last column; rows without padding need it.",
     rollout_with(pick=lambda x, k: x[:, :-1][k[:, :-1]])),
    ("first token left out", "Your statistics leave out the first token of each row.",
     rollout_with(pick=lambda x, k: x[:, 1:][k[:, 1:]])),
    ("the first row's statistics", "Mean and deviation are the first row's; take the batch's.",
     rollout_with(pick=lambda x, k: x[0][k[0]])),
    ("median instead of mean", "You subtracted the median; subtract the mean.",
     rollout_with(mean=torch.median)),
    ("mean not subtracted in the variance", "Your deviation is the root of the mean square; subtract the mean"
     " first.", rollout_with(var=lambda x: x.square().mean())),
    ("sum instead of mean", "You summed the squares and never divided by n − 1.",
     rollout_with(var=lambda x: (x - x.mean()).square().sum())),
    ("sum instead of mean", "Your mean is the sum; divide by how many count.",
     rollout_with(mean=torch.sum)),
    ("median subtracted in the variance", "Your variance is around the median; take the mean.",
     rollout_with(var=lambda x: (x - x.median()).square().sum() / max(len(x) - 1, 1))),
    ("mean added in the variance", "In your variance you added the mean; subtract it, then square.",
     rollout_with(var=lambda x: (x + x.mean()).square().sum() / max(len(x) - 1, 1))),
    *[("another divisor of the variance", f"You divided the squares by n {words}; divide by n − 1.",
       rollout_with(var=lambda x, by=by: (x - x.mean()).square().sum() / max(len(x) + by, 1)))
      for by, words in ((-2, "− 2"), (1, "+ 1"))],
    ("mean absolute deviation", "Your deviation is the mean of |A − mean|; take the root of the variance.",
     rollout_with(var=lambda x: (x - x.mean()).abs().mean().square())),
    ("padding in the variance's divisor", "You divided the squares by all positions; divide by the counted"
     " ones − 1.", rollout_with(var_of=lambda a, k: spread(a[k]) * (k.sum() - 1) / (k.numel() - 1))),
    ("padding in the variance's divisor", "You divided the squares by all positions; divide by the counted"
     " ones − 1.", rollout_with(var_of=lambda a, k: spread(a[k]) * (k.sum() - 1) / k.numel())),
    ("divided before the mean is subtracted", "You divided first and subtracted the mean then: subtract, then"
     " divide.", rollout_with(white=lambda a, k: a / (spread(a[k]) + 1e-8).sqrt() - a[k].mean())),
    ("mean added", "You added the mean; subtract it.",
     rollout_with(white=lambda a, k: (a + a[k].mean()) / (spread(a[k]) + 1e-8).sqrt())),
    ("multiplied by the deviation", "You multiplied by the deviation; divide by it.",
     rollout_with(white=lambda a, k: (a - a[k].mean()) * (spread(a[k]) + 1e-8).sqrt())),
    ("clipped", "You cut the whitened advantages off; nothing is cut off here.",
     rollout_with(white=lambda a, k: scaled(a, k).clamp(-1, 1))),
    ("the floor is added", "You added `floor` to the deviation; it only decides whether to divide.",
     rollout_with(white=lambda a, k: (a - a[k].mean()) / (spread(a[k]).sqrt() + FLOOR))),
    ("the floor for single tokens", "You compared each token's distance with `floor`; compare the deviation"
     " of them all, once.",
     rollout_with(white=lambda a, k: torch.where(
         (a - a[k].mean()).abs() < FLOOR, a - a[k].mean(), scaled(a, k)))),
    *[("a large epsilon", f"You added {size:g}; 1e-8 only keeps 0/0 away.",
       rollout_with(white=lambda a, k, size=size: (a - a[k].mean()) / (spread(a[k]) + size).sqrt()))
      for size in (1.0, 0.1, 1e-2, 1e-3)],
    ("the gauge is never below the floor", "Your second gauge is raised to `floor`; give the deviation as it"
     " is.", rollout_with(gauge=lambda m, s, v, share, ev: [m, s.clamp(min=FLOOR), share, ev])),
    ("the deviation with 1e-8", "Your second gauge has the 1e-8 in it; that belongs to the division.",
     rollout_with(gauge=lambda m, s, v, share, ev: [m, (v + 1e-8).sqrt(), share, ev])),
    ("mean and deviation exchanged", "The first two gauges are exchanged: [mean, std, share, explained].",
     rollout_with(gauge=lambda m, s, v, share, ev: [s, m, share, ev])),
    ("mean of the rows' shares", "You averaged one share per row; take the share of all counted tokens.",
     rollout_with(up=lambda w, a, k: row_statistics(w, k, lambda x: (x > 0).float().mean()).mean())),
    ("mean of what is pushed up", "You averaged the advantages above 0; count them, and divide by all"
         " counted.",
     rollout_with(up=lambda w, a, k: w[k][w[k] > 0].mean())),
    ("mean of what is pushed up", "You added up the advantages above 0; count them.",
     rollout_with(up=lambda w, a, k: w[k].clamp(min=0).mean())),
    ("at or above 0", "You count 0 as pushed up; only what is above 0 is.",
     rollout_with(up=lambda w, a, k: (w[k] >= 0).float().mean())),
    ("share in percent", "Your share is in percent; give a number between 0 and 1.",
     rollout_with(up=lambda w, a, k: 100 * (w[k] > 0).float().mean())),
    ("share of the returns", "You counted returns above 0; count whitened advantages.",
     rollout_with(up_of_returns=True)),
    ("correlation", "That is a correlation, which forgives a wrong scale; explained variance does not.",
     rollout_with(explained=lambda a, v, r, k: correlation(v, r, k).square())),
    ("correlation", "That is a correlation, which forgives a wrong scale; explained variance does not.",
     rollout_with(explained=lambda a, v, r, k: correlation(v, r, k))),
    ("explained variance of whitened returns", "You took the whitened advantages for the returns.",
     rollout_with(explained=lambda a, v, r, k: share_explained(v, scaled(a, k), k))),
    ("explained variance of whitened returns", "You put the whitened advantages in the place of the error;"
     " the error is returns − values.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread(scaled(a, k)[k]) / spread(r[k]))),
    ("1 added", "You added the unexplained share to 1; subtract it.",
     rollout_with(explained=lambda a, v, r, k: 1 + spread((r - v)[k]) / spread(r[k]).clamp(min=1e-12))),
    ("standard deviations", "You divided standard deviations; use variances.",
     rollout_with(explained=lambda a, v, r, k: 1 - (
         spread((r - v)[k]) / spread(r[k]).clamp(min=1e-12)).sqrt())),
    ("second moments", "You averaged squares without subtracting the means.",
     rollout_with(explained=lambda a, v, r, k: 1 - (r - v)[k].square().mean() / r[k].square().mean())),
    ("two divisors", "One of the two variances divides by n, the other by n − 1: use the same for both.",
     rollout_with(explained=lambda a, v, r, k: 1 - (r - v)[k].var(unbiased=False) / spread(r[k]))),
    ("two divisors", "One of the two variances divides by n, the other by n − 1: use the same for both.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread((r - v)[k]) / r[k].var(unbiased=False))),
    ("Var(values)/Var(returns)", "Values can vary a lot and still be wrong: use the variance of the error.",
     rollout_with(explained=lambda a, v, r, k: spread(v[k]) / spread(r[k]).clamp(min=1e-12))),
    ("mean of the rows' shares explained", "You averaged one share per row; take both variances over the"
         " batch.",
     rollout_with(explained=lambda a, v, r, k: torch.stack(
         [share_explained(*(x[b : b + 1] for x in (v, r, k))) for b in range(len(k))]).mean())),
    ("1 − forgotten", "That is the unexplained share; subtract it from 1.",
     rollout_with(explained=lambda a, v, r, k: spread((r - v)[k]) / spread(r[k]).clamp(min=1e-12))),
    ("1 − forgotten", "That is minus the unexplained share; subtract the share from 1.",
     rollout_with(explained=lambda a, v, r, k: -spread((r - v)[k]) / spread(r[k]).clamp(min=1e-12))),
    ("not divided by Var(returns)", "Your last gauge is 1 − Var(error); divide by Var(returns) first.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread((r - v)[k]))),
    ("multiplied by Var(returns)", "You multiplied the two variances; divide by the returns'.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread((r - v)[k]) * spread(r[k]))),
    ("explained over padding", "The variance of the returns is over padding too, in the last gauge.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread((r - v)[k]) / spread(r.flatten()))),
    ("explained over padding", "The variance of the error is over padding too, in the last gauge.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread((r - torch.where(k, v, 0.0)).flatten())
                  / spread(r[k]))),
    ("fraction upside down", "Divide by the variance of the returns.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread(r[k]) / spread((r - v)[k]))),
    ("squared error instead of variance", "You averaged squares; take the variance of returns − values.",
     rollout_with(explained=lambda a, v, r, k: 1 - (r - v)[k].square().mean()
                  / spread(r[k]).clamp(min=1e-12))),
    ("divided by Var(values)", "Divide by the variance of the returns, not of the values.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread((r - v)[k]) / spread(v[k]).clamp(min=1e-12))),
    ("explained over padding", "The two variances of the last gauge are over padding too.",
     rollout_with(explained=lambda a, v, r, k: 1 - spread((r - torch.where(k, v, 0.0)).flatten())
                  / spread(r.flatten()).clamp(min=1e-12))),
    ("a number, not a share", "You counted the tokens pushed up; divide by how many count.",
     rollout_with(up=lambda w, a, k: (w[k] > 0).float().sum())),
    ("order of the gauges", "Share and explained variance are exchanged: [mean, std, share, explained].",
     rollout_with(gauge=lambda m, s, v, share, ev: [m, s, ev, share])),
    ("gauges of what is whitened", "Mean and deviation are those of the whitened advantages, 0 and 1;"
     " give those of the raw ones.", rollout_with(gauge=lambda m, s, v, share, ev: [0 * m, s, share, ev])),
    ("deviation of what is whitened", "Your second gauge is the deviation of the whitened advantages, 1"
     " unless they are only centred; give that of the raw ones.",
     rollout_with(gauge=lambda m, s, v, share, ev: [
         m, s if s < FLOOR else s / (v + 1e-8).sqrt(), share, ev])),
    ("mask upside down", "Your statistics are those of the padding; True means that a position counts.",
     rollout_with(pick=lambda x, mask: x[~mask])),
    ("floor turned round", "You only centre above `floor`; it is below it that you should.",
     rollout_with(reached=lambda v, s, floor: s > floor)),
    ("floor ignored", "Where scores are nearly equal you blow their noise up to a deviation of 1: below"
     " `floor` subtract the mean only.", rollout_with(reached=lambda v, s, floor: False)),
    ("floor against the variance", "You compared the variance with `floor`; compare the standard"
     " deviation.", rollout_with(reached=lambda v, s, floor: v < floor)),
    ("below the floor all is 0", "Below `floor` you return zeros; subtract the mean only.",
     rollout_with(below=lambda a, m, s: a * 0)),
    ("below the floor nothing is done", "Below `floor` the advantages come back as they are; subtract"
     " the mean.", rollout_with(below=lambda a, m, s: a)),
    ("divided by the floor", "Below `floor` you divide by it; subtract the mean only.",
     rollout_with(below=lambda a, m, s: (a - m) / FLOOR)),
]]
# fmt: on
