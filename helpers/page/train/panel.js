// "Train it here": a worker trains the policy; each run joins the recorded ones, grows, and the whole page shows it.
const DECADE = [1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.2, 2.5, 2.7, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9];
const BETAS = [0, 0.01, 0.1, 1].flatMap((ten) => (ten ? DECADE.map((one) => Number((ten * one).toPrecision(2))) : 0)).filter((beta) => beta <= 2);
const training = { worker: null, policy: null, run: null, begins: false, going: false, waiting: 0, from: 0 };
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

/** What of the panel goes into the link: the fields that were changed. */
function trainingLink() {
  const isChanged = ({ checked, value, defaultChecked, defaultValue }) => checked !== defaultChecked || value !== defaultValue;
  return { ...(isChanged(betaField) && { train: nextBeta() }), ...writtenReward(FIELDS.filter(isChanged)) };
}

function readTrainingLink(said) {
  const named = FIELDS.filter(({ name }) => said.has(name)), beta = said.get("train");
  if (!named.length && !beta) return;
  if (beta && beta >= 0) betaField.value = BETAS.findLastIndex((one) => one <= beta);
  for (const field of named) Object.assign(field, { value: said.get(field.name), checked: said.get(field.name) === "true" });
  byId("train-box").open = true;
  byId("reward-box").open = named.length > 0;
  readForm();
}

// ---- the worker ----
function makeWorker() {
  const source = new Blob([byId("engine").textContent], { type: "text/javascript" });
  const worker = new Worker(URL.createObjectURL(source));
  worker.onmessage = ({ data }) => hearWorker(data);
  worker.onerror = () => hearWorker({ run: training.run.key, problem: "This browser lets no worker run here: nothing can be trained." });
  return worker;
}

function askWorker(message) {
  training.waiting += 1;
  training.worker.postMessage({ run: training.run.key, ...message });
}

/** One more update, unless the run has ended, was stopped, or nobody looks. */
function goOn() {
  if (training.going && !training.waiting && !document.hidden) askWorker({});
}

function hearWorker({ run, problem, point, inspected }) {
  training.waiting -= 1;
  if (run !== training.run.key) return; // it is no longer wanted
  if (problem) return endTraining(problem);
  if (point) takePoint(point);
  if (inspected) takeInspection(inspected);
  goOn();
}

function endTraining(problem) {
  training.worker.terminate();
  Object.assign(training, { worker: null, run: null, begins: false, going: false, waiting: 0 });
  say(problem);
  drawTraining();
}

// ---- runs ----
/** A new run, from the reference, at the slider's β and with the form's reward. */
async function train() {
  stop();
  document.body.classList.add("touched"); // nobody need be told to drag β
  Object.assign(training, { begins: true, going: false, from: view.beta });
  say("Loading the models …");
  keepTimes(cutWords(writtenReward().liked));
  drawTraining();
  byId("run").scrollIntoView({ behavior: CALM.matches ? "auto" : "smooth" }); // below it stands what it writes
  try {
    const [policy, reward] = await Promise.all([loadPolicy("reference"), loadPolicy("reward")]);
    const klCoef = nextBeta(), own = rewardInTokens(policy), ownReward = !isPlain(own), toTokens = (text) => encode(policy, text);
    if (ownReward) say("Measuring 512 responses of the reference …");
    const models = { policy: { ...policy, placed: null }, reward, prompts: reward.prompts.map(toTokens) };
    const shown = { prompts: DATA.prompts.map(toTokens), next: DATA.nextWords.map((words) => words.map((word) => policy.places.get(word))) };
    const key = `run\u00a0${LIVE.length + 1}`, run = { proxy: [], gold: [], kl: [], times: [], shots: [] };
    const optimum = ownReward ? null : DATA.optima[DATA.betas.indexOf(klCoef)]; // where a recorded run has one
    const liked = own.liked.map((token) => policy.words[token]);
    const worker = training.worker ?? makeWorker();
    training.run = { key, label: `${key}: β = ${klCoef}`, beta: klCoef, ownReward, liked, optimum, run };
    Object.assign(training, { policy, going: true, worker });
    askWorker({ begin: { models, klCoef, own, shown } });
  } catch (problem) {
    training.begins = false;
    say(problem.message); // a run that was there can go on
  }
  drawTraining();
  byId("train-stop").focus({ preventScroll: true });
}

/** A point of the run, and what the policy then writes. Before training it is the reference, and has the recorded runs' numbers. */
function takePoint({ iteration, score, kl, times, texts, samples, next, simd, took }) {
  const mine = training.run, { run, ownReward } = mine, isNew = !LIVE.includes(mine);
  const isFollowed = isNew ? view.beta === training.from : joinedAt(view.beta) === mine && view.iteration === iteration - 1;
  const measured = { proxy: score, kl, gold: average(texts.map((tokens) => gold(textOfTokens(tokens)))) };
  const means = iteration ? measured : { ...valuesOf(DATA.runs[0][0], 0), ...(ownReward && { proxy: score }) };
  for (const name of ["proxy", "gold", "kl"]) run[name].push(means[name]);
  run.times.push(times);
  const row = ({ score, words, drift }, prompt) => [score, gold(plain(DATA.prompts[prompt], words)), words, drift.map((x) => 10 * x)];
  const rows = samples.map((some, prompt) => some.map((sample) => row(sample, prompt)));
  run.shots.push({ iteration, samples: rows, next: next.map((probs) => probs.map((p) => Math.round(1000 * p))) });
  shownSample = "";
  if (isNew) {
    training.begins = false;
    LIVE.push(mine);
    joinRuns();
    say(simd ? "" : "No WebAssembly SIMD here: plain JavaScript, several times slower.");
  } else layPlane();
  show(isFollowed ? { beta: TRAINED + DATA.joined.indexOf(mine), iteration } : {}); // who has moved β meanwhile stays there
  training.going &&= iteration < RLOO.iterations;
  drawTraining();
  const minutes = Math.ceil(((RLOO.iterations - iteration) * took) / 60_000);
  if (training.going) write(byId("train-left"), `${minutes > 1 ? `about ${minutes} minutes` : "under a minute"} left`);
}

// ---- the panel ----
/** What is said of the run: its card is there from now on. */
function say(words) {
  write(byId("train-said"), words);
  byId("run").hidden = false;
}

/** Room for how often these words are written, so that nothing jumps while it trains. */
function keepTimes(liked) {
  reserve(byId("times"), [timesFacts({ liked, run: { times: [liked.map(() => 0)] } }, 0, { tokens: [] })], write);
}

/** The form's reward as one line, without words that the model does not know. */
function rewardWords() {
  const { model, like, dislike, length, once, ...words } = writtenReward();
  const isKnown = (word) => training.policy?.places.has(word) ?? true;
  const [liked, disliked] = [words.liked, words.disliked].map((text) => cutWords(text).filter(isKnown).join(" "));
  const parts = [
    model && `${model === 1 ? "" : `${model} × `}the reward model`,
    liked && like && `+${like} for each of “${liked}”`,
    disliked && dislike && `−${dislike} for each of “${disliked}”`,
    once && (liked || disliked) && "each word once",
    length && `${length > 0 ? "longer" : "shorter"} (${written(length, 1)})`,
  ];
  return parts.filter(Boolean).join(", ") || "nothing: all responses are worth the same";
}

/** The form has changed: below each field stand its words that the model does not know. */
async function readForm() {
  drawTraining();
  for (const name of ["liked", "disliked"]) {
    const text = writtenReward()[name], policy = text && (await loadPolicy("reference").catch(() => null));
    write(byId(`unknown-${name}`), policy ? unknownTold(policy, text) : "");
    if (policy) training.policy = policy;
  }
  write(byId("own-said"), rewardWords());
}

function drawTraining() {
  const { run, begins, going } = training, bar = byId("train-made"), made = run ? run.run.kl.length - 1 : 0, next = `β = ${nextBeta()}`;
  betaField.setAttribute("aria-valuetext", next);
  write(byId("train-go"), `Train at ${next}`);
  byId("train-go").disabled = begins; // a run is not lost before its first update
  byId("train-stop").disabled = !run || made === RLOO.iterations;
  byId("inspect-go").disabled = !run;
  write(byId("train-stop"), going || byId("train-stop").disabled ? "Stop" : "Continue");
  write(byId("train-progress"), run ? `${run.label}, update ${Math.max(made, 0)} of ${RLOO.iterations}` : "");
  if (!going) write(byId("train-left"), "");
  document.body.classList.toggle("begins", begins && view.beta === training.from); // of that run is nothing to see yet
  if (begins) bar.removeAttribute("value"); // it moves by itself
  else bar.value = made / RLOO.iterations;
  for (const field of FIELDS) if (field.type === "range") write(field.nextElementSibling, written(Number(field.value), 1));
  write(byId("own-said"), rewardWords());
}

function layTraining() {
  byId("train-box").hidden = !DATA.policies.length; // in a notebook: until Python offers its models
  byId("train-go").addEventListener("click", train);
  byId("train-stop").addEventListener("click", () => {
    training.going = !training.going;
    goOn();
    drawTraining();
  });
  byId("train-box").addEventListener("input", () => {
    readForm();
    show({});
  });
  document.addEventListener("visibilitychange", goOn);
  drawTraining();
}
