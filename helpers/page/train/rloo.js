// RLOO: 16 prompts × 4 responses, −β·k1 in the reward, one epoch of one step of Adam. As helpers/steps.py has it.
const LONGEST_RESPONSE = 24; // tokens
const HEAP = 24e6; // floats: three times the policy, the reward model, and all that a rollout and its gradients need
const RLOO = { prompts: 16, group: 4, iterations: 60, rate: 2e-3, maxNorm: 1, beta1: 0.9, beta2: 0.999, epsilon: 1e-5 };

function average(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Of a sample: squares over one less than there are. */
function variance(values) {
  const mean = average(values);
  return values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
}

/** Policy, reference and reward model in one heap, with room for a rollout on these prompts (lists of tokens). */
function makeTrainer({ policy, reward, prompts }, heapOf = fastHeap) {
  const asked = Math.max(...prompts.map(({ length }) => length));
  const rows = RLOO.prompts * (asked + RLOO.group * (LONGEST_RESPONSE - 1));
  const texts = RLOO.prompts * RLOO.group * (asked + LONGEST_RESPONSE), heap = heapOf(HEAP) ?? plainHeap();
  const [actor, reference, judge] = [policy, policy, reward].map((model) => placeModel(heap, model));
  const moments = [new Float32Array(actor.flat.length), new Float32Array(actor.flat.length)];
  return {
    actor, reference, judge, prompts, moments, steps: 0, tree: makeTree(rows, policy.positions), simd: heap.simd,
    acts: makeActs(actor, rows, true), scratch: makeActs(reference, texts, false), grads: makeGradients(actor, rows),
  };
}

/** The policy as it was before training. */
function resetTrainer(trainer) {
  trainer.actor.flat.set(trainer.reference.flat);
  turnHead(trainer.actor);
  trainer.moments.forEach((moment) => moment.fill(0));
  trainer.steps = 0;
}

/** `group` responses to each prompt; `choose(row, response)` names the next token. */
function sampleResponses({ actor, acts, tree }, prompts, group, choose) {
  tree.count = 0;
  const before = prompts.map((tokens) => tokens.slice(0, -1).reduce((row, token) => tree.add(token, row), -1));
  forward(actor, acts, tree, 0, tree.count);
  const first = tree.count, ends = prompts.map((tokens, at) => tree.add(tokens.at(-1), before[at]));
  const made = (prompt, at) => Array.from({ length: group }, () => ({ prompt, row: ends[at], tokens: [], rows: [], logprobs: [] }));
  const responses = prompts.flatMap(made);
  for (let running = responses, from = first; running.length; ) {
    forward(actor, acts, tree, from, tree.count);
    predict(actor, acts, from, tree.count);
    from = tree.count;
    for (const response of running) {
      const token = choose(response.row, response);
      response.tokens.push(token);
      response.rows.push(response.row);
      response.logprobs.push(logprobOf(actor, acts, response.row, token));
    }
    running = running.filter(({ tokens }) => tokens.at(-1) !== END_TOKEN && tokens.length < LONGEST_RESPONSE);
    for (const response of running) response.row = tree.add(response.tokens.at(-1), response.row);
  }
  return { responses, first };
}

/** The reward model's score of each response. */
function scoreResponses({ reference, judge, scratch }, { responses }) {
  const texts = responses.map(({ prompt, tokens }) => scoredTokens([...prompt, ...tokens], reference.words));
  scoreTexts(judge, scratch, texts).forEach((score, at) => (responses[at].proxy = score));
}

/** Log-probs under the reference, and KL (Σ k1) of each response; `drift` is k1 token by token. */
function compareResponses({ reference, scratch, tree }, { responses, first }) {
  forward(reference, scratch, tree, 0, tree.count);
  predict(reference, scratch, first, tree.count);
  responses.forEach((response) => {
    response.refLogprobs = response.tokens.map((token, t) => logprobOf(reference, scratch, response.rows[t], token));
    response.drift = response.logprobs.map((logprob, t) => logprob - response.refLogprobs[t]);
    response.kl = response.drift.reduce((sum, k1) => sum + k1, 0);
  });
}

/** Each reward minus the mean of the others of its group. */
function rlooAdvantages(rewards, group) {
  return rewards.map((reward, at) => {
    const own = rewards.slice(at - (at % group), at - (at % group) + group);
    return reward - (group * average(own) - reward) / (group - 1);
  });
}

/** Advantages of mean 0 and variance 1 over all tokens of the responses. */
function whiten(advantages, lengths) {
  const each = advantages.flatMap((advantage, at) => Array(lengths[at]).fill(advantage));
  const mean = average(each), std = Math.sqrt(variance(each) + 1e-8);
  return advantages.map((advantage) => (advantage - mean) / std);
}

/** Gradients of −mean(ρ·A) over tokens at ρ = 1, from scores that stand in each response. */
function policyGradient({ actor, acts, tree, grads }, { responses, first }, klCoef) {
  const advantages = rlooAdvantages(responses.map(({ score, kl }) => score - klCoef * kl), RLOO.group);
  const lengths = responses.map(({ tokens }) => tokens.length), count = lengths.reduce((sum, length) => sum + length, 0);
  const { vocabulary, words } = actor, { logits, logZ } = acts, pulls = new Float64Array(tree.count);
  whiten(advantages, lengths).forEach((advantage, at) => {
    responses[at].advantage = advantage;
    for (const row of responses[at].rows) pulls[row] += advantage / count;
  });
  for (let row = first; row < tree.count; row++) {
    const at = row * vocabulary;
    for (let i = 0; i < words.length; i++) logits[at + i] = pulls[row] * Math.exp(logits[at + i] - logZ[row]);
    logits.fill(0, at + words.length, at + vocabulary);
  }
  for (const { tokens, rows, advantage } of responses) rows.forEach((row, t) => (logits[row * vocabulary + tokens[t]] -= advantage / count));
  backward(actor, acts, tree, grads, first);
}

/** One step of Adam at this rate, the gradient's norm clipped; → the norm before. */
function adamStep(trainer, rate) {
  const { actor, grads, moments: [m, v] } = trainer, { beta1, beta2, epsilon, maxNorm } = RLOO, g = grads.flat;
  let squares = 0;
  for (let i = 0; i < g.length; i++) squares += g[i] * g[i];
  const norm = Math.sqrt(squares), scale = Math.min(1, maxNorm / (norm + 1e-6));
  if (!Number.isFinite(norm)) throw new Error("The gradient is not finite: training stops here.");
  trainer.steps += 1;
  const step = rate / (1 - beta1 ** trainer.steps), correction = Math.sqrt(1 - beta2 ** trainer.steps);
  for (let i = 0; i < g.length; i++) {
    const gradient = g[i] * scale;
    m[i] = beta1 * m[i] + (1 - beta1) * gradient;
    v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    actor.flat[i] -= (step * m[i]) / (Math.sqrt(v[i]) / correction + epsilon);
  }
  turnHead(actor);
  return norm;
}

/** A random choice of the prompts, none twice. */
function drawPrompts({ prompts }, random) {
  const drawn = prompts.map((prompt) => ({ prompt, key: random() })).sort((one, other) => one.key - other.key);
  return drawn.slice(0, RLOO.prompts).map(({ prompt }) => prompt);
}

/** `group` responses to each of these prompts, with all that an update needs of them. */
function makeRollout(trainer, scoreOf = ({ proxy }) => proxy, random = Math.random, prompts = drawPrompts(trainer, random), group = RLOO.group) {
  const rollout = sampleResponses(trainer, prompts, group, (row) => drawToken(trainer.actor, trainer.acts, row, random));
  scoreResponses(trainer, rollout);
  compareResponses(trainer, rollout);
  for (const response of rollout.responses) response.score = scoreOf(response);
  return rollout;
}

/** A rollout and, but for the last one of a run, an update; → means over the rollout's responses. */
function iterate(trainer, { klCoef, iteration, scoreOf, random }) {
  const rollout = makeRollout(trainer, scoreOf, random);
  if (iteration < RLOO.iterations) {
    policyGradient(trainer, rollout, klCoef);
    adamStep(trainer, RLOO.rate * (1 - iteration / RLOO.iterations));
  }
  const mean = (name) => average(rollout.responses.map((response) => response[name]));
  return { iteration, score: mean("score"), kl: mean("kl"), rollout };
}
