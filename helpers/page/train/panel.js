// "Train it here": a worker trains the policy; each run joins the recorded ones, grows, and is looked at like them.
const KEPT_RUNS = 2, DECADES = Math.log(200); // live runs beside the recorded ones; β from 0.01 to 2
const training = { worker: null, run: null, going: false, waiting: false, made: 0, asked: 0, beta: 0.1 };
const FIELDS = { model: 1, liked: "", like: 1, disliked: "", dislike: 1, length: 0, once: false }; // the reward to begin with

// ---- what is asked for ----
/** The slider's β: 0 at its left end, then logarithmic, two digits. */
function sliderBeta() {
  const value = Number(byId("train-beta").value);
  return value ? Number((0.01 * Math.exp((DECADES * (value - 1)) / 99)).toPrecision(2)) : 0;
}

/** A β that may stand between two places of the slider. */
function setBeta(beta) {
  training.beta = beta;
  byId("train-beta").value = beta > 0 ? clamp(Math.round(1 + (99 * Math.log(beta / 0.01)) / DECADES), 1, 100) : 0;
}

/** The reward that the form names: numbers, words as they were written. */
function writtenReward() {
  const read = (name) => {
    const { type, checked, value } = byId(`own-${name}`);
    return { checkbox: checked, range: Number(value), text: value.trim() }[type];
  };
  return Object.fromEntries(Object.keys(FIELDS).map((name) => [name, read(name)]));
}

function writeReward(reward) {
  for (const name in reward) {
    const field = byId(`own-${name}`);
    if (field.type === "checkbox") field.checked = reward[name] === true || reward[name] === "true";
    else field.value = reward[name];
  }
}

/** What of the panel goes into the link: β once it has been trained or moved, and what was changed of the reward. */
function trainingLink() {
  const reward = Object.entries(writtenReward()).filter(([name, value]) => value !== FIELDS[name]);
  return training.asked || reward.length ? { train: training.beta, ...Object.fromEntries(reward) } : {};
}

function readTrainingLink(said) {
  const named = Object.keys(FIELDS).filter((name) => said.has(name));
  if (!named.length && !said.has("train")) return;
  const beta = Number(said.get("train"));
  if (said.get("train") && beta >= 0 && beta <= 2) setBeta(beta);
  writeReward(Object.fromEntries(named.map((name) => [name, said.get(name)])));
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
  const { layers, heads, width, positions, epsilon, words, tensors } = policy; // not what this page has made of it
  const plain = { layers, heads, width, positions, epsilon, words, tensors };
  const source = new Blob([byId("engine").textContent], { type: "text/javascript" });
  training.worker = new Worker(URL.createObjectURL(source));
  training.worker.onmessage = ({ data }) => hearWorker(data);
  training.worker.onerror = () => hearWorker({ problem: "This browser lets no worker run here: nothing can be trained." });
  training.models = { policy: plain, reward: { ...reward, places: null }, prompts: reward.prompts.map((text) => encode(policy, text)) };
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
    training.run = { key: `${name}: ${klCoef}`, name, label: `${name}: β = ${klCoef}`, beta: klCoef, ownReward, liked: own.liked, optimum: null, run };
    training.going = true;
    training.asked = 1;
    say(`Measuring ${REFERENCE_SAMPLES} responses of the reference …`);
    askWorker({ models: training.models, begin: { klCoef, own, shown } });
    training.models = null; // the worker has them
  } catch (problem) {
    say(problem.message); // a run that was there can go on
  }
  drawTraining();
}

/** Which run gives way, and what of a reward cannot be learned: rare words, one value for all. */
function tellReward({ rare = [], varies = true, score, texts }, simd) {
  const { run } = training.run, said = LIVE.length < KEPT_RUNS ? [] : [`${LIVE[0].name} gives way: the page keeps ${KEPT_RUNS} runs.`];
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

/** The form's reward as one line. */
function rewardWords() {
  const { model, liked, like, disliked, dislike, length, once } = writtenReward(), said = [];
  if (model) said.push(model === 1 ? "the reward model" : `${model} × the reward model`);
  if (liked && like) said.push(`+${like} for ${once ? "the first of each" : "each"} “${liked}”`);
  if (disliked && dislike) said.push(`−${dislike} for ${once ? "the first of each" : "each"} “${disliked}”`);
  if (length) said.push(`${length > 0 ? "longer" : "shorter"} (${written(length, 1)})`);
  return said.join(", ") || "nothing: all responses are worth the same";
}

/** Which of the written words the model does not know, with those it knows that begin alike. */
async function checkWords() {
  const { liked, disliked } = writtenReward(), policy = liked || disliked ? await loadPolicy("reference").catch(() => null) : null;
  const alike = (word) => policy.words.filter((one) => one.startsWith(word.slice(0, Math.max(3, word.length - 2)))).slice(0, 3);
  const said = policy ? unknownWords(policy, `${liked} ${disliked}`).map((word) => {
    return `The model does not know “${word}”${alike(word).length ? `; it knows ${alike(word).join(", ")}` : ""}.`;
  }) : [];
  write(byId("own-unknown"), said.join(" "));
}

function drawTraining() {
  const made = (training.run?.run.kl.length ?? 0) - 1, half = made < RLOO.iterations && training.run;
  write(byId("train-beta-now"), `β = ${training.beta}`);
  byId("train-beta").setAttribute("aria-valuetext", `β = ${training.beta}`);
  const another = `New run at β = ${training.beta}`;
  write(byId("train-go"), training.going ? "Stop" : half ? `Continue ${half.name} (β = ${half.beta})` : another);
  write(byId("train-again"), another);
  byId("train-again").hidden = !half;
  byId("train-go").disabled = byId("train-again").disabled = false;
  byId("inspect-go").disabled = !training.run;
  write(byId("train-progress"), made < 0 ? "" : `${training.run.label}, update ${made} of ${RLOO.iterations}`);
  for (const field of byId("reward-box").querySelectorAll("input[type=range]")) {
    write(field.nextElementSibling, written(Number(field.value), 1));
  }
  write(byId("own-said"), rewardWords());
}

function layTraining() {
  byId("train-box").hidden = !DATA.policies.length; // in a notebook: until Python offers its models
  setBeta(training.beta);
  writeReward(FIELDS);
  byId("train-go").addEventListener("click", () => {
    if (!training.going && !(training.run?.run.kl.length <= RLOO.iterations)) return train(); // none yet, or it has ended
    training.going = !training.going;
    goOn();
    drawTraining();
  });
  byId("train-again").addEventListener("click", train);
  byId("train-beta").addEventListener("input", () => (training.beta = sliderBeta()));
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
  document.addEventListener("visibilitychange", goOn);
  drawTraining();
}
