// "Train it here": a worker trains the policy; each run joins the recorded ones, grows, and is looked at like them.
const KEPT_RUNS = 2; // live runs beside the recorded ones
const BETAS = [0, ...Array.from({ length: 100 }, (_, at) => Number((0.01 * 200 ** (at / 99)).toPrecision(2)))]; // of the slider
const training = { worker: null, run: null, going: false, waiting: false, made: 0, asked: 0, beta: 0.1 };
const FIELDS = [...byId("reward-box").querySelectorAll("input")]; // of the reward, by name

// ---- what is asked for ----
/** A β that may stand between two places of the slider. */
function setBeta(beta) {
  training.beta = beta;
  byId("train-beta").value = BETAS.findLastIndex((one) => one <= beta);
}

/** What these fields say of the reward: numbers, words as they were written. */
function writtenReward(fields = FIELDS) {
  const read = ({ type, checked, value }) => ({ checkbox: checked, range: Number(value), text: value.trim() })[type];
  return Object.fromEntries(fields.map((field) => [field.name, read(field)]));
}

/** What of the panel goes into the link: β once it has been trained or moved, and what was changed of the reward. */
function trainingLink() {
  const changed = FIELDS.filter(({ type, checked, value, defaultValue }) => (type === "checkbox" ? checked : value !== defaultValue));
  return training.asked || changed.length ? { train: training.beta, ...writtenReward(changed) } : {};
}

function readTrainingLink(said) {
  const named = FIELDS.filter(({ name }) => said.has(name));
  if (!named.length && !said.has("train")) return;
  const beta = Number(said.get("train"));
  if (said.get("train") && beta >= 0 && beta <= 2) setBeta(beta);
  for (const field of named) {
    field.checked = said.get(field.name) === "true"; // a box's; of other fields it means nothing
    if (field.type !== "checkbox") field.value = said.get(field.name);
  }
  training.asked = 1;
  byId("train-box").open = true;
  byId("reward-box").open = named.length > 0;
  checkWords();
  drawTraining();
}

// ---- the worker ----
function askWorker(message) {
  training.waiting = true;
  training.worker.postMessage({ id: training.made, ...message });
}

/** One more update, unless the run has ended, was stopped, or nobody looks. */
function goOn() {
  if (training.going && !training.waiting && !document.hidden) askWorker({});
}

async function makeWorker() {
  const [policy, reward] = await Promise.all([loadPolicy("reference"), loadPolicy("reward")]);
  const source = new Blob([byId("engine").textContent], { type: "text/javascript" });
  training.worker = new Worker(URL.createObjectURL(source));
  training.worker.onmessage = ({ data }) => hearWorker(data);
  training.worker.onerror = () => hearWorker({ problem: "This browser lets no worker run here: nothing can be trained." });
  training.models = { policy: { ...policy, placed: null }, reward, prompts: reward.prompts.map((text) => encode(policy, text)) };
  training.policy = policy;
}

function hearWorker({ id = training.made, problem, begun, simd, point, shot, texts, inspected }) {
  if (id !== training.made) return; // of a run that is no longer wanted
  training.waiting = false;
  if (problem) return endTraining(problem);
  if (begun) tellReward(begun, simd);
  if (point) takePoint(point, shot, texts);
  if (inspected) takeInspection(inspected);
  goOn();
}

// ---- runs ----
/** A new run, from the reference, at the slider's β and with the form's reward. */
async function train() {
  if (byId("train-go").disabled) return; // it loads
  stop();
  document.body.classList.add("touched"); // nobody need be told to drag β
  training.going = false;
  say("Loading the models …");
  byId("train-go").disabled = byId("train-again").disabled = true;
  try {
    if (!training.worker) await makeWorker();
    const { policy } = training, klCoef = training.beta, reward = writtenReward();
    const tokens = (text) => encode(policy, text).filter((token) => token > UNKNOWN_TOKEN);
    const own = { ...reward, liked: tokens(reward.liked), disliked: tokens(reward.disliked) };
    const next = DATA.nextWords.map((words) => words.map((word) => policy.places.get(word)));
    const shown = { prompts: DATA.prompts.map((text) => encode(policy, text)), next };
    const unknown = ["liked", "disliked"].find((name) => reward[name] && !own[name].length);
    if (unknown) throw new Error(`The model knows none of the words ${unknown}: change them, or leave the field empty.`);
    const name = `run\u00a0${(training.made += 1)}`, ownReward = !isPlain(own);
    const run = { proxy: [], gold: [], kl: [], times: [], shots: [] };
    training.run = { key: name, label: `${name}: β = ${klCoef}`, beta: klCoef, reward, ownReward, liked: own.liked, optimum: null, run };
    training.going = true;
    training.asked = 1;
    say(`Measuring ${REFERENCE_SAMPLES} responses of the reference …`);
    askWorker({ models: training.models, begin: { klCoef, own, shown } });
    training.models = null; // the worker has them
  } catch (problem) {
    say(problem.message); // a run that was there can go on
  }
  drawTraining();
  byId("train-go").focus(); // a button that is disabled loses it; the run is followed beside this one
}

/** Which run gives way, and what of a reward cannot be learned: rare words, one value for all. */
function tellReward({ rare = [], varies = true, score, texts }, simd) {
  const { run } = training.run, said = LIVE.length < KEPT_RUNS ? [] : [`${LIVE[0].key} gives way: the page keeps ${KEPT_RUNS} runs.`];
  run.start = { proxy: score, gold: meanGold(texts), times: timesOf(texts) };
  const counts = rare.map(([token, count]) => `“${training.policy.words[token]}” in ${count}`);
  if (rare.length) {
    said.push(`Of ${REFERENCE_SAMPLES} responses of the reference: ${counts.join(", ")}.`);
    said.push("What is almost never sampled is almost never rewarded: it may not be learned.");
  }
  if (!varies) said.push("All of them have the same reward: there is nothing to learn.");
  if (!simd) said.push("No WebAssembly SIMD here: plain JavaScript, about five times slower.");
  say(said.join(" "));
}

/** The mean gold of a rollout: [prompt, response] as tokens. */
function meanGold(texts) {
  return average(texts.map(([prompt, response]) => gold(textOfTokens([...prompt, ...response]))));
}

/** How often each liked word stands in a response of a rollout, on average. */
function timesOf(texts) {
  return training.run.liked.map((word) => average(texts.map(([, response]) => countOf([word], response))));
}

function takePoint({ iteration, score, proxy, kl }, { samples, next }, texts) {
  const { run } = training.run, isNew = !LIVE.includes(training.run), place = () => TRAINED + DATA.joined.indexOf(training.run);
  const followed = view.beta === place() && view.iteration === iteration - 1;
  run.proxy.push(score);
  run.kl.push(kl);
  run.gold.push(meanGold(texts));
  run.times.push(timesOf(texts));
  const row = ({ score, words, drift }, prompt) => [score, gold(plain(DATA.prompts[prompt], words)), words, drift.map((x) => 10 * x)];
  const rows = samples.map((some, prompt) => some.map((sample) => row(sample, prompt)));
  run.shots.push({ iteration, samples: rows, next: next.map((probs) => probs.map((p) => Math.round(1000 * p))) });
  if (isNew) {
    LIVE.splice(0, LIVE.length, ...LIVE.slice(1 - KEPT_RUNS), training.run);
    joinRuns();
  } else growRun();
  if (isNew || followed) show({ beta: place(), iteration });
  if (iteration === RLOO.iterations) training.going = false;
  drawTraining();
}

/** The run that is trained has one more point; which runs there are is as before. */
function growRun() {
  shownSample = "";
  layPlane();
  show({});
}

function endTraining(problem) {
  training.going = training.waiting = false;
  training.worker?.terminate();
  training.worker = training.run = null;
  say(problem);
  drawTraining();
}

// ---- the panel ----
/** Another reward than the reward model's stands in the proxy's place, by its name and without a frontier; the algorithm. */
function drawUnits(view) {
  const joined = joinedAt(view.beta), own = Boolean(joined?.ownReward);
  for (const place of document.querySelectorAll("[data-own]")) {
    place.dataset.plain ??= place.textContent;
    write(place, own ? place.dataset.own : place.dataset.plain);
  }
  write(parts.proxyLabel, scoreName(view.beta));
  const { times, start } = joined?.run ?? {}, now = times?.[valuesOf(joined.run, view.iteration).iteration] ?? [];
  const said = now.map((mean, at) => `“${training.policy.words[joined.liked[at]]}” ${written(mean)} (${written(start.times[at])})`);
  write(byId("times"), said.length ? `Times per text, now (before): ${said.join(", ")}.` : "");
  write(document.querySelector("[for=iteration] .wide"), `${methodOf(view.beta)} `);
  plane.classList.toggle("own", own);
}

function say(words) {
  write(byId("train-said"), words);
}

/** The form's reward as one line, of the words that the model knows. */
function rewardWords() {
  const { model, like, dislike, length, once, ...fields } = writtenReward(), said = [];
  const known = (text) => cutWords(text).filter((word) => training.policy?.places.has(word) ?? true).join(" ");
  const [liked, disliked] = [fields.liked, fields.disliked].map(known);
  if (model) said.push(model === 1 ? "the reward model" : `${model} × the reward model`);
  if (liked && like) said.push(`+${like} for ${once ? "the first of each" : "each"} “${liked}”`);
  if (disliked && dislike) said.push(`−${dislike} for ${once ? "the first of each" : "each"} “${disliked}”`);
  if (length) said.push(`${length > 0 ? "longer" : "shorter"} (${written(length, 1)})`);
  return said.join(", ") || "nothing: all responses are worth the same";
}

/** Below each field: which of its words the model does not know, with those it knows that begin alike. */
async function checkWords() {
  const { liked, disliked } = writtenReward();
  if (liked || disliked) training.policy ??= await loadPolicy("reference").catch(() => null);
  if (!training.policy) return;
  const alike = (word) => training.policy.words.filter((one) => one.startsWith(word.slice(0, Math.max(3, word.length - 2)))).slice(0, 3);
  const told = (word) => `The model does not know “${word}”${alike(word).length ? `; it knows ${alike(word).join(", ")}` : ""}.`;
  for (const name of ["liked", "disliked"]) write(byId(`unknown-${name}`), unknownWords(training.policy, byId(`own-${name}`).value).map(told).join(" "));
  drawTraining();
}

/** The run as it now is, beside its button: numbers, and what it writes. */
function drawLive({ run, ownReward }) {
  const { proxy, gold, kl } = valuesOf(run, RLOO.iterations), sample = run.shots.length && sampleOf(run.shots.at(-1), view.prompt, view.which);
  write(byId("live-numbers"), sample ? `${ownReward ? "own reward" : "proxy"} ${written(proxy)}, gold ${written(gold)}, KL ${writtenKl(kl)}` : "");
  write(byId("live-text"), sample ? plain(DATA.prompts[view.prompt], sample.tokens) : "…");
}

function drawTraining() {
  const { run, going } = training, made = (run?.run.kl.length ?? 0) - 1, half = run && made < RLOO.iterations;
  write(byId("train-beta-now"), `β = ${training.beta}`);
  byId("train-beta").setAttribute("aria-valuetext", `β = ${training.beta}`);
  const another = `New run at β = ${training.beta}`;
  write(byId("train-go"), going ? "Stop" : half ? `Continue ${run.label}` : another);
  write(byId("train-again"), another);
  byId("train-again").hidden = !half || made < 0; // a run is not lost before its first update
  byId("train-live").hidden = !run;
  if (run) drawLive(run);
  byId("train-go").disabled = byId("train-again").disabled = false;
  byId("inspect-go").disabled = !run;
  write(byId("train-progress"), made < 0 ? "" : `${run.label}, update ${made} of ${RLOO.iterations}`);
  for (const field of byId("reward-box").querySelectorAll("input[type=range]")) {
    write(field.nextElementSibling, written(Number(field.value), 1));
  }
  const later = half && JSON.stringify(run.reward) !== JSON.stringify(writtenReward());
  write(byId("own-said"), `${rewardWords()}${later ? " (applies to the next run)" : ""}`);
}

function layTraining() {
  byId("train-box").hidden = !DATA.policies.length; // in a notebook: until Python offers its models
  setBeta(training.beta);
  byId("train-go").addEventListener("click", () => {
    if (!training.going && !(training.run?.run.kl.length <= RLOO.iterations)) return train(); // none yet, or it has ended
    training.going = !training.going;
    goOn();
    drawTraining();
  });
  byId("train-again").addEventListener("click", train);
  byId("train-beta").addEventListener("input", () => (training.beta = BETAS[byId("train-beta").value]));
  byId("train-box").addEventListener("toggle", () => { // opened by hand: at the β that is shown
    if (!byId("train-box").open || training.asked) return;
    stop();
    setBeta(DATA.betas[view.beta]);
    drawTraining();
  });
  byId("train-box").addEventListener("input", () => {
    training.asked = 1;
    checkWords();
    drawTraining();
    show({});
  });
  byId("reward-box").addEventListener("keydown", ({ key, target }) => {
    if (key === "Enter" && target.type === "text") train();
  });
  document.addEventListener("visibilitychange", goOn);
  drawTraining();
}
