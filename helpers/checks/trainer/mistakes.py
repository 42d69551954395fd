"""Well-known wrong versions of steps 3 to 6 of a trainer (notebook 06): of each step a table.

Those of the scores stand here, the others in files of their own.
"""

from helpers.checks.gae.credit_mistakes import ADVANTAGE_MISTAKES
from helpers.checks.judging.exercise import kept
from helpers.checks.trainer.course_steps import score_responses
from helpers.checks.trainer.logprob_mistakes import LOGPROB_MISTAKES
from helpers.checks.trainer.reward_mistakes import REWARD_MISTAKES

SCORE_MISTAKES = kept([
    ("the sign of the score", "The scores have the wrong sign.",
     lambda *given: -score_responses(*given)),
    ("whitened scores", "You normalised the scores over the batch; the reward model's scores are"
     " normalised already.",
     lambda *given: (lambda s: (s - s.mean()) / s.std())(score_responses(*given))),
    ("centred scores", "You subtracted the batch's mean score; the critic is the baseline here.",
     lambda *given: (lambda s: s - s.mean())(score_responses(*given))),
    ("a probability", "You passed the scores through a sigmoid; rewards are the scores themselves.",
     lambda *given: score_responses(*given).sigmoid()),
])  # fmt: skip

MISTAKES = {
    "score_responses": SCORE_MISTAKES,
    "forward_logprobs": LOGPROB_MISTAKES,
    "total_rewards": REWARD_MISTAKES,
    "estimate_advantages": ADVANTAGE_MISTAKES,
}
