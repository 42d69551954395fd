// What test_train.py asks of the page's engine.
function shippedTrainer() {
  const [policy, reward] = [readPolicy(POLICY_FILES.reference), readPolicy(POLICY_FILES.reward)];
  return makeTrainer({ policy, reward, prompts: reward.prompts.map((text) => encode(policy, text)) });
}

/** From another policy on: a forward, gradients and an update on each recorded rollout, and how far it all moved. */
function replay({ rollouts, klCoef }) {
  const trainer = shippedTrainer(), { actor } = trainer, further = readPolicy(POLICY_FILES.further);
  for (const name in further.tensors) actor.named[name].set(further.tensors[name]);
  turnHead(actor);
  const before = actor.flat.slice(), lists = (of) => Object.fromEntries(Object.entries(of).map(([name, x]) => [name, [...x]]));
  const done = rollouts.map(({ queries, responses }, iteration) => {
    const asked = queries.filter((_, at) => at % RLOO.group === 0), recorded = new Map();
    const rollout = sampleResponses(trainer, asked, RLOO.group, (row, response) => {
      if (!recorded.has(response)) recorded.set(response, responses[recorded.size]);
      return recorded.get(response)[response.tokens.length];
    });
    scoreResponses(trainer, rollout);
    compareResponses(trainer, rollout);
    for (const response of rollout.responses) response.score = response.proxy;
    policyGradient(trainer, rollout, klCoef);
    const gradients = lists(trainer.grads.named), norm = adamStep(trainer, RLOO.rate * (1 - iteration / RLOO.iterations));
    return { responses: rollout.responses, gradients, norm };
  });
  before.forEach((x, at) => (before[at] = actor.flat[at] - x));
  return { done, moved: [...before], simd: trainer.simd, sizes: Object.entries(actor.named).map(([name, x]) => [name, x.length]) };
}

/** Products of the kernel, or of its plain double: [has SIMD, C]. */
function products(asked) {
  return asked.map(([plain, a, b, m, n, k, turned]) => {
    const heap = plain ? plainHeap() : fastHeap(4096);
    const [x, y, out] = [a, b, Array((m + 3) * n).fill(7)].map((from) => {
      const to = heap.take(from.length);
      to.set(from);
      return to;
    });
    (turned ? multiplyTransposed : multiply)(heap, x, y, out, m, n, k);
    return [heap.simd, [...out.subarray(0, m * n)]];
  });
}

/** mulberry32 */
function uniform(seed) {
  return () => {
    let t = (seed += 0x6d2b79f5);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Score and KL of the first iterations of a run. */
function curve({ klCoef, seed, iterations }) {
  const trainer = shippedTrainer(), random = uniform(seed);
  const records = Array.from({ length: iterations }, (_, iteration) => iterate(trainer, { klCoef, iteration, random }));
  return records.map(({ score, kl }) => ({ score, kl }));
}

/** An inspected update beside the same one made: what of the trainer it left changed, and what it told. */
function inspected({ klCoef, seed }) {
  const trainer = shippedTrainer(), { actor, acts, tree, grads, moments } = trainer, state = [actor.flat, ...moments];
  iterate(trainer, { klCoef, iteration: 0, random: uniform(seed) });
  const before = state.map((numbers) => numbers.slice()), told = inspectUpdate(trainer, { klCoef, iteration: 1, random: uniform(seed) });
  const changed = state.some((numbers, i) => numbers.some((x, at) => x !== before[i][at])) || trainer.steps !== 1;
  const rollout = makeRollout(trainer, ({ proxy }) => proxy, uniform(seed));
  policyGradient(trainer, rollout, klCoef);
  adamStep(trainer, RLOO.rate * (1 - 1 / RLOO.iterations));
  const alongStep = grads.flat.reduce((sum, g, at) => sum + g * (actor.flat[at] - before[0][at]), 0);
  forward(actor, acts, tree, 0, tree.count);
  predict(actor, acts, rollout.first, tree.count);
  const now = rollout.responses.map(({ tokens, rows }) => tokens.map((token, t) => logprobOf(actor, acts, rows[t], token)));
  return { told, changed, alongStep, now };
}
