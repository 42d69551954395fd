// What the worker does when asked: build the models, begin a run, make one update. The page asks for each update.
const SHOWN_RESPONSES = 3; // to each of the page's beginnings, before each update
const work = { trainer: null, run: null };

/** The reference's responses to all prompts, four to each, with the reward model's scores. */
function referenceSamples(trainer) {
  const samples = [];
  for (let at = 0; samples.length < REFERENCE_SAMPLES; at += RLOO.prompts) {
    const prompts = Array.from({ length: RLOO.prompts }, (_, place) => trainer.prompts[(at + place) % trainer.prompts.length]);
    const rollout = sampleResponses(trainer, prompts, RLOO.group);
    scoreResponses(trainer, rollout);
    samples.push(...rollout.responses.map(({ prompt, proxy, tokens }) => ({ prompt, proxy, tokens })));
  }
  return samples;
}

/** A new run at this β: `own` is a reward as own.js has it; `shown` are the page's {prompts, next}, as tokens. */
function beginRun(trainer, { klCoef, own, shown }) {
  resetTrainer(trainer);
  const samples = (trainer.samples ??= referenceSamples(trainer)), { mean, std, varies } = measureReward(own, samples);
  const scoreOf = ({ proxy, tokens }) => (rawReward(own, proxy, tokens) - mean) / std;
  const begun = { varies, texts: samples.map(({ prompt, tokens }) => [prompt, tokens]) };
  return { klCoef, shown, scoreOf, begun, iteration: 0 };
}

/** What the policy now writes to the page's beginnings, and how likely the shown next words are. */
function look(trainer, { shown, scoreOf }) {
  const { actor, acts } = trainer, rollout = sampleResponses(trainer, shown.prompts, SHOWN_RESPONSES);
  const next = shown.next.map((tokens, at) => tokens.map((token) => Math.exp(logprobOf(actor, acts, rollout.first + at, token))));
  scoreResponses(trainer, rollout);
  compareResponses(trainer, rollout);
  const samples = rollout.responses.map((response) => ({
    score: scoreOf(response), words: response.tokens.map((token) => actor.words[token]),
    drift: response.logprobs.map((logprob, t) => logprob - response.refLogprobs[t]),
  }));
  return { next, samples: shown.prompts.map((_, at) => samples.slice(at * SHOWN_RESPONSES, (at + 1) * SHOWN_RESPONSES)) };
}

function answer({ models, begin, inspect }) {
  if (models) work.trainer = makeTrainer(models);
  if (begin) {
    work.run = beginRun(work.trainer, begin);
    return { begun: work.run.begun, simd: work.trainer.simd };
  }
  if (inspect) return { inspected: { klCoef: work.run.klCoef, responses: inspectUpdate(work.trainer, work.run) } };
  const shot = look(work.trainer, work.run), { rollout, ...point } = iterate(work.trainer, work.run);
  work.run.iteration += 1;
  return { point, shot, texts: rollout.responses.map(({ prompt, tokens }) => [prompt, tokens]) };
}

if (typeof WorkerGlobalScope !== "undefined") {
  onmessage = ({ data }) => {
    try {
      postMessage({ id: data.id, ...answer(data) });
    } catch (problem) {
      postMessage({ id: data.id, problem: problem.message });
    }
  };
}
