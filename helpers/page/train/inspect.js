// One update looked at token by token: what it was made of, what its gradient predicts, what it did. As helpers/ppo.py and groups.py.
const SMALL_SHARE = 1 / 64; // of the update: what it changes, times 64, is the gradient's prediction
const GROUP_EPSILON = 1e-4; // added to a group's std
const ALGORITHMS = [ // whose advantage, over what the loss is a mean, how far the ratio may go below and above 1
  { name: "REINFORCE", advantage: "rloo", mean: "token" },
  { name: "PPO's clip", advantage: "rloo", mean: "token", low: 0.2, high: 0.2 },
  { name: "GRPO", advantage: "grpo", mean: "response", low: 0.2, high: 0.2 },
  { name: "DAPO", advantage: "grpo", mean: "token", low: 0.2, high: 0.28 },
  { name: "GSPO", advantage: "grpo", mean: "response", low: 3e-4, high: 4e-4, ofResponse: true },
];

/** (r − mean)/(std + 1e-4) within each group. */
function grpoAdvantages(rewards, group) {
  return rewards.map((reward, at) => {
    const own = rewards.slice(at - (at % group), at - (at % group) + group);
    return (reward - average(own)) / (Math.sqrt(variance(own)) + GROUP_EPSILON);
  });
}

/**
 * What token `t` of response `at` adds to each algorithm's loss (a mean over the rollout), and the derivative of the loss by its
 * log π. A response is {tokens, logprobs, newLogprobs, advantage, score, kl}; `logprobs` are those it was sampled with.
 */
function tokenTerms(responses, klCoef, group, at, t) {
  const { tokens, logprobs, newLogprobs, advantage } = responses[at];
  const count = responses.reduce((sum, one) => sum + one.tokens.length, 0), moves = newLogprobs.map((now, i) => now - logprobs[i]);
  const advantages = { rloo: advantage, grpo: grpoAdvantages(responses.map(({ score, kl }) => score - klCoef * kl), group)[at] };
  return ALGORITHMS.map(({ name, advantage, mean, low, high, ofResponse }) => {
    const a = advantages[advantage], share = 1 / (mean === "token" ? count : responses.length * tokens.length);
    if (low === undefined) return { name, advantage: a, ratio: null, term: -share * a * newLogprobs[t], slope: -share * a, clipped: false };
    const ratio = Math.exp(ofResponse ? average(moves) : moves[t]);
    const gain = Math.min(ratio * a, Math.min(Math.max(ratio, 1 - low), 1 + high) * a), clipped = gain < ratio * a;
    return { name, advantage: a, ratio, term: -share * gain, slope: clipped ? 0 : -share * ratio * a, clipped };
  });
}

/** The run's next update on a rollout of its own, and back: the responses with their log-probs before and after it. */
function inspectUpdate(trainer, { klCoef, iteration, scoreOf, random }) {
  const { actor, acts, tree, moments, steps } = trainer, rollout = makeRollout(trainer, scoreOf, random), { responses, first } = rollout;
  const state = [actor.flat, ...moments], before = state.map((numbers) => numbers.slice());
  policyGradient(trainer, rollout, klCoef);
  adamStep(trainer, RLOO.rate * (1 - Math.min(iteration, RLOO.iterations - 1) / RLOO.iterations));
  const after = actor.flat.slice();
  const logprobsAt = (share) => {
    before[0].forEach((from, i) => (actor.flat[i] = from + share * (after[i] - from)));
    forward(turnHead(actor), acts, tree, 0, tree.count);
    predict(actor, acts, first, tree.count);
    return responses.map(({ tokens, rows }) => tokens.map((token, t) => logprobOf(actor, acts, rows[t], token)));
  };
  const [near, now] = [SMALL_SHARE, 1].map(logprobsAt);
  state.forEach((numbers, i) => numbers.set(before[i]));
  turnHead(actor);
  trainer.steps = steps;
  return responses.map((response, at) => ({
    ...response, newLogprobs: now[at], predicted: near[at].map((logprob, t) => (logprob - response.logprobs[t]) / SMALL_SHARE),
  }));
}
