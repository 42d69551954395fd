// What the worker does when asked: begin a run, make one update, look at the next one. The page asks for each.
const SHOWN_RESPONSES = 3; // to each of the page's beginnings, before each update
const REFERENCE_ROLLOUTS = 8; // 512 responses, as the course's normaliser
const work = { trainer: null, run: null };

/** A new run at this β: `own` is a reward as own.js has it; `shown` are the page's {prompts, next}, as tokens. */
function beginRun(trainer, { klCoef, own, shown }) {
  resetTrainer(trainer);
  if (!isPlain(own)) trainer.samples ??= Array.from({ length: REFERENCE_ROLLOUTS }, () => makeRollout(trainer).responses).flat();
  return { klCoef, own, shown, scoreOf: normalisedReward(own, trainer.samples), iteration: 0 };
}

/** What the policy now writes to the page's beginnings, and how likely the shown next words are. */
function look(trainer, { shown, scoreOf }) {
  const { actor, acts } = trainer, { responses, first } = makeRollout(trainer, scoreOf, Math.random, shown.prompts, SHOWN_RESPONSES);
  const next = shown.next.map((tokens, at) => tokens.map((token) => Math.exp(logprobOf(actor, acts, first + at, token))));
  const samples = responses.map(({ score, tokens, drift }) => ({ score, words: tokens.map((token) => actor.words[token]), drift }));
  return { next, samples: shown.prompts.map((_, at) => samples.slice(at * SHOWN_RESPONSES, (at + 1) * SHOWN_RESPONSES)) };
}

/** One update and what there is to see before it; how often liked words stand in a response: at first in those of the reference. */
function update(trainer, run) {
  const began = performance.now(), shot = look(trainer, run), { rollout, ...means } = iterate(trainer, run);
  const counted = run.iteration || isPlain(run.own) ? rollout.responses : trainer.samples;
  const times = run.own.liked.map((word) => average(counted.map(({ tokens }) => countOf([word], tokens))));
  const texts = rollout.responses.map(({ prompt, tokens }) => [...prompt, ...tokens]);
  run.iteration += 1;
  return { ...means, ...shot, times, texts, simd: trainer.simd, took: performance.now() - began };
}

function answer({ begin, inspect }) {
  if (begin) {
    work.trainer ??= makeTrainer(begin.models);
    work.run = beginRun(work.trainer, begin);
  }
  const { trainer, run } = work;
  return inspect ? { inspected: { klCoef: run.klCoef, responses: inspectUpdate(trainer, run) } } : { point: update(trainer, run) };
}

if (typeof WorkerGlobalScope !== "undefined") {
  onmessage = ({ data }) => {
    try {
      postMessage({ run: data.run, ...answer(data) });
    } catch (problem) {
      postMessage({ run: data.run, problem: problem.message });
    }
  };
}
