// "Train it here": a worker trains the policy; each run joins the recorded ones, grows, and the whole page shows it.
const KEPT_RUNS = 2; // live runs beside the recorded ones
const DECADE = [1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.2, 2.5, 2.7, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9];
const BETAS = [0, 0.01, 0.1, 1].flatMap((ten) => (ten ? DECADE.map((one) => Number((ten * one).toPrecision(2))) : 0)).filter((beta) => beta <= 2);
const training = { worker: null, run: null, start: null, going: false, waiting: false, made: 0, asked: 0, pace: 0, from: 0 };
const FIELDS = [...byId("reward-box").querySelectorAll("input")]; // of the reward, by name
const betaField = byId("train-beta"), nextBeta = () => BETAS[betaField.value];

// ---- what is asked for ----
/** What these fields say of the reward: numbers, words without the commas between them. */
function writtenReward(fields = FIELDS) {
  const read = ({ type, checked, value }) => ({ checkbox: checked, range: Number(value), text: value.replaceAll(",", " ").trim() })[type];
  return Object.fromEntries(fields.map((field) => [field.name, read(field)]));
}

/** The same, with the words as tokens. Error: words of which the model knows none. */
function rewardInTokens(policy) {
  const reward = writtenReward();
  for (const name of ["liked", "disliked"]) {
    const tokens = encode(policy, reward[name]).filter((token) => token > UNKNOWN_TOKEN);
    if (reward[name] && !tokens.length) throw new Error(`The model knows none of the words ${name}: change them, or leave the field empty.`);
    reward[name] = tokens;
  }
  return reward;
}

/** What of the panel goes into the link, once a run was trained or a field was changed. */
function trainingLink() {
  const isChanged = ({ checked, value, defaultChecked, defaultValue }) => checked !== defaultChecked || value !== defaultValue;
  const changed = FIELDS.filter(isChanged), asked = training.made || changed.length || isChanged(betaField);
  return asked ? { train: nextBeta(), ...writtenReward(changed) } : {};
}

function readTrainingLink(said) {
  const named = FIELDS.filter(({ name }) => said.has(name)), beta = said.get("train");
  if (!named.length && !beta) return;
  if (beta && beta >= 0) betaField.value = BETAS.findLastIndex((one) => one <= beta);
  for (const field of named) {
    field.checked = said.get(field.name) === "true"; // a box's; of other fields it means nothing
    if (field.type !== "checkbox") field.value = said.get(field.name);
  }
  byId("train-box").open = true;
  byId("reward-box").open = named.length > 0;
  checkWords();
  drawTraining();
}

// ---- the worker ----
function askWorker(message) {
  Object.assign(training, { waiting: true, asked: performance.now() });
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
  Object.assign(training, { going: false, from: view.beta });
  say("Loading the models …");
  keepRunRoom();
  byId("train-go").disabled = true;
  byId("run").scrollIntoView({ behavior: CALM.matches ? "auto" : "smooth" }); // below it stands what it writes
  try {
    if (!training.worker) await makeWorker();
    const { policy } = training, klCoef = nextBeta(), own = rewardInTokens(policy);
    const next = DATA.nextWords.map((words) => words.map((word) => policy.places.get(word)));
    const shown = { prompts: DATA.prompts.map((text) => encode(policy, text)), next };
    const name = `run\u00a0${(training.made += 1)}`, run = { proxy: [], gold: [], kl: [], times: [], shots: [] };
    const optimum = isPlain(own) ? DATA.optima[DATA.betas.indexOf(klCoef)] : null; // where a recorded run has one
    training.run = { key: name, label: `${name}: β = ${klCoef}`, beta: klCoef, ownReward: !isPlain(own), liked: own.liked, optimum, run };
    training.going = true;
    say(`Measuring ${REFERENCE_SAMPLES} responses of the reference …`);
    askWorker({ models: training.models, begin: { klCoef, own, shown } });
    training.models = null; // the worker has them
  } catch (problem) {
    say(problem.message); // a run that was there can go on
  }
  drawTraining();
  byId("train-stop").focus({ preventScroll: true });
}

/** What is said of a run that begins: which other gives way, which words it may not learn. */
function beginningTold(rare) {
  const gone = LIVE.length < KEPT_RUNS ? "" : `${LIVE[0].key} gives way: the page keeps ${KEPT_RUNS} runs. `;
  const seldom = `Hardly ever in ${REFERENCE_SAMPLES} responses of the reference: ${quoted(rare)}. `;
  return gone + (rare.length ? `${seldom}What is not sampled is not rewarded: it may not be learned. ` : "");
}

/** Room for all that will be said of the run, so that nothing jumps while it trains. */
function keepRunRoom() {
  const liked = cutWords(writtenReward().liked);
  reserve(byId("train-progress"), [`run 99: β = 0.013, update ${RLOO.iterations} of ${RLOO.iterations}`], write);
  reserve(byId("train-said"), ["…", beginningTold(liked)], write);
  byId("times").style.minHeight = `${1.45 * liked.length}em`;
}

/** Where the run starts, and what of its reward cannot be learned: rare words, one value for all. */
function tellReward({ varies, texts }, simd) {
  const { liked, ownReward } = training.run, { times } = meansOf(texts), { proxy, gold } = valuesOf(DATA.runs[0][0], 0);
  training.start = { proxy: ownReward ? 0 : proxy, kl: 0, gold, times }; // the same reference: the recorded runs' numbers
  const rare = liked.filter((_, at) => times[at] < RARE).map((token) => training.policy.words[token]);
  const equal = varies ? "" : "All responses have the same reward: there is nothing to learn. ";
  say(beginningTold(rare) + equal + (simd ? "" : "No WebAssembly SIMD here: plain JavaScript, several times slower."));
}

/** Means over texts, [prompt, response] as tokens: gold, and how often each liked word stands in a response. */
function meansOf(texts) {
  const times = training.run.liked.map((word) => average(texts.map(([, response]) => countOf([word], response))));
  return { gold: average(texts.map(([prompt, response]) => gold(textOfTokens([...prompt, ...response])))), times };
}

function takePoint({ iteration, score, kl }, { samples, next }, texts) {
  const { run } = training.run, isNew = !LIVE.includes(training.run), place = () => TRAINED + DATA.joined.indexOf(training.run);
  const followed = isNew ? view.beta === training.from : view.beta === place() && view.iteration === iteration - 1;
  training.pace = (performance.now() - training.asked + training.pace * iteration) / (iteration + 1); // the mean
  const means = iteration ? { proxy: score, kl, ...meansOf(texts) } : training.start;
  for (const name in means) run[name].push(means[name]);
  const row = ({ score, words, drift }, prompt) => [score, gold(plain(DATA.prompts[prompt], words)), words, drift.map((x) => 10 * x)];
  const rows = samples.map((some, prompt) => some.map((sample) => row(sample, prompt)));
  run.shots.push({ iteration, samples: rows, next: next.map((probs) => probs.map((p) => Math.round(1000 * p))) });
  shownSample = "";
  if (!isNew) layPlane();
  else if (LIVE.push(training.run) > KEPT_RUNS) LIVE.shift();
  if (isNew) joinRuns();
  show(followed ? { beta: place(), iteration } : {}); // who has moved β meanwhile stays there
  if (iteration === RLOO.iterations) training.going = false;
  drawTraining();
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
  const own = Boolean(joinedAt(view.beta)?.ownReward);
  for (const place of document.querySelectorAll("[data-own]")) {
    place.plain ??= [...place.childNodes];
    place.replaceChildren(...(own ? [place.dataset.own] : place.plain));
  }
  write(document.querySelector("[for=iteration] .wide"), `${methodOf(view.beta)} `);
  plane.classList.toggle("own", own);
}

/** What is said of the run: its card is there from now on. */
function say(words) {
  write(byId("train-said"), words);
  byId("run").hidden = false;
}

/** The form's reward as one line, of words those that the model knows. */
function rewardWords() {
  const { model, like, dislike, length, once, ...words } = writtenReward(), said = [];
  const known = (word) => training.policy?.places.has(word) ?? true; // before it is loaded, all
  const [liked, disliked] = [words.liked, words.disliked].map((text) => quoted(cutWords(text).filter(known), " or "));
  if (model) said.push(model === 1 ? "the reward model" : `${model} × the reward model`);
  if (liked && like) said.push(`+${like} for each ${liked}`);
  if (disliked && dislike) said.push(`−${dislike} for each ${disliked}`);
  if (once && (liked || disliked)) said.push("each word once");
  if (length) said.push(`${length > 0 ? "longer" : "shorter"} (${written(length, 1)})`);
  return said.join(", ") || "nothing: all responses are worth the same";
}

/** Below each field: which of its words the model does not know, with those it knows that begin alike. */
async function checkWords() {
  const reward = writtenReward();
  if (reward.liked || reward.disliked) training.policy ??= await loadPolicy("reference").catch(() => null);
  if (!training.policy) return;
  for (const name of ["liked", "disliked"]) write(byId(`unknown-${name}`), unknownTold(training.policy, reward[name]));
  write(byId("own-said"), rewardWords());
}

/** How long so many updates take, at the pace so far. */
function timeOf(count) {
  const minutes = Math.ceil((count * training.pace) / 60_000);
  return minutes > 1 ? `about ${minutes} minutes` : "under a minute";
}

function drawTraining() {
  const { run, going } = training, made = (run?.run.kl.length ?? 0) - 1, next = `β = ${nextBeta()}`;
  betaField.setAttribute("aria-valuetext", next);
  write(byId("train-go"), `Train at ${next}`);
  byId("train-go").disabled = Boolean(run) && made < 0; // a run is not lost before its first update
  byId("train-stop").disabled = byId("inspect-go").disabled = !run;
  write(byId("inspect-go"), run ? "Sample some responses (a rollout)" : "Train first");
  write(byId("train-stop"), going || !run ? "Stop" : made < RLOO.iterations ? "Continue" : "Train another");
  write(byId("train-progress"), run ? `${run.label}, update ${Math.max(made, 0)} of ${RLOO.iterations}` : "");
  write(byId("train-left"), going && made > 0 ? `${timeOf(RLOO.iterations - made)} left` : "");
  write(byId("train-time"), `${updates(RLOO.iterations)}${training.pace ? `: ${timeOf(RLOO.iterations)} here` : "; how long they take is told after the first"}.`);
  byId("train-made").value = Math.max(made, 0) / RLOO.iterations;
  for (const field of FIELDS) if (field.type === "range") write(field.nextElementSibling, written(Number(field.value), 1));
  write(byId("own-said"), rewardWords());
}

/** Stop, continue, or, after the last update, choose another run. */
function stopOrGoOn() {
  if (training.run.run.kl.length > RLOO.iterations) {
    byId("train-box").open = true;
    return betaField.focus();
  }
  training.going = !training.going;
  goOn();
  drawTraining();
}

function layTraining() {
  byId("train-box").hidden = !DATA.policies.length; // in a notebook: until Python offers its models
  byId("train-go").addEventListener("click", train);
  byId("train-stop").addEventListener("click", stopOrGoOn);
  byId("train-box").addEventListener("input", () => {
    checkWords();
    drawTraining();
    show({});
  });
  document.addEventListener("visibilitychange", goOn);
  drawTraining();
}
