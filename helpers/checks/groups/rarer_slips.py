"""Rarer slips in the rewards and gains of a group step (notebook 10)."""

import torch

from helpers.checks.groups.group_slips import gains_with, kept, paid

NO_REFERENCE = (
    "You priced old_logprobs alone; the KL is log π_old − log π_ref: subtract ref_logprobs."
)
ONE_SIDE = (
    "One limit is 1 itself, so on that side the clip acts at once: they are 1 − cliprange and 1 +"
)

# fmt: off
REWARDS = [
    ("reference missing", NO_REFERENCE, paid(lambda old, ref, m: kept(old, m).sum(1))),
    ("policy left out", "You priced ref_logprobs alone; the KL is log π_old − log π_ref.",
     paid(lambda old, ref, m: -kept(ref, m).sum(1))),
    ("policy left out", "You priced ref_logprobs alone; the KL is log π_old − log π_ref.",
     paid(lambda old, ref, m: kept(ref, m).sum(1))),
    ("one KL for all", "You subtract the KL of the whole batch from every score; each response pays its own.",
     paid(lambda old, ref, m: kept(old - ref, m).sum())),
    ("a price of the length", "Your price grows with the number of tokens; it is β times the KL.",
     paid(lambda old, ref, m: m.sum(1))),
    ("KL missing", "You subtract β itself; subtract β times the KL of each response.",
     paid(lambda old, ref, m: 1.0)),
    ("KL of the policy in training", "You count old_logprobs − logprobs; the KL is to the reference.",
     lambda s, p, old, ref, m, c: s - c.kl_coef * kept(old - p, m).sum(1)),
]
GAINS = [
    ("no room on one side", f"{ONE_SIDE} cliprange_high.", gains_with(
        lambda r, a, low, high: torch.minimum(r * a, r.clamp(1.0, 1 + high) * a))),
    ("no room on one side", f"{ONE_SIDE} cliprange_high.", gains_with(
        lambda r, a, low, high: torch.minimum(r * a, r.clamp(1 - low, 1.0) * a))),
    ("ratio left out", "A is one of your two gains; the second is the clipped ratio times A.", gains_with(
        lambda r, a, low, high: torch.minimum(r * a, a))),
    ("ratio left out", "A is one of your two gains; the first is the ratio times A.", gains_with(
        lambda r, a, low, high: torch.minimum(a, r.clamp(1 - low, 1 + high) * a))),
    ("advantage left out", "One of the two gains is a ratio alone; both are a ratio times A.", gains_with(
        lambda r, a, low, high: torch.minimum(r, r.clamp(1 - low, 1 + high) * a))),
    ("advantage left out", "One of the two gains is a ratio alone; both are a ratio times A.", gains_with(
        lambda r, a, low, high: torch.minimum(r * a, r.clamp(1 - low, 1 + high)))),
    ("limits exchanged", "The limits of your clamp stand in the wrong order: first 1 − cliprange, then 1 +"
     " cliprange_high.", gains_with(
         lambda r, a, low, high: torch.minimum(r * a, r.clamp(1 + high, 1 - low) * a))),
    ("limits without 1", "Your lower limit is cliprange; it is 1 − cliprange.", gains_with(
        lambda r, a, low, high: torch.minimum(r * a, r.clamp(low, 1 + high) * a))),
    ("limits without 1", "Your upper limit is cliprange_high; it is 1 + cliprange_high.", gains_with(
        lambda r, a, low, high: torch.minimum(r * a, r.clamp(1 - low, high) * a))),
    ("lower limit above 1", "Your lower limit is 1 + cliprange; it is 1 − cliprange.", gains_with(
        lambda r, a, low, high: torch.minimum(r * a, r.clamp(1 + low, 1 + high) * a))),
    ("gains summed", "You added the two gains; take the smaller one.", gains_with(
        lambda r, a, low, high: r * a + r.clamp(1 - low, 1 + high) * a)),
    ("gains averaged", "You averaged the two gains; take the smaller one.", gains_with(
        lambda r, a, low, high: (r + r.clamp(1 - low, 1 + high)) * a / 2)),
    ("the size of the advantage", "You took |A|: tokens of bad responses would be pushed up. Keep the sign.",
     gains_with(lambda r, a, low, high: torch.minimum(
         r * a.abs(), r.clamp(1 - low, 1 + high) * a.abs()))),
    ("negative advantages dropped", "You set negative advantages to 0; bad responses are to be pushed down.",
     gains_with(lambda r, a, low, high: torch.minimum(
         r * a.clamp(min=0), r.clamp(1 - low, 1 + high) * a.clamp(min=0)))),
]
# fmt: on
