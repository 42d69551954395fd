// The view and what moves it: ruler, slider, play, choices, the link.
const view = { beta: 0, seed: 0, prompt: 0, which: 0, iteration: last };
const ruler = byId("beta"), iteration = byId("iteration");
const FILM = 9000, HOLD = 1500; // milliseconds from the first update to the last; before the page moves by itself
let asked = 0, playing = 0, linked = 0, confirmed = 0;
let pushed = false; // against an end of the ruler
let left = -1; // the update at which a run of the page's own was left for another β

// ---- drawing, once a frame ----
function draw() {
  asked = 0;
  if (laidOut < 0 && document.body.clientWidth) return layOut(); // it was hidden when runs joined
  const now = valuesOf(runOf(view), view.iteration);
  write(byId("story"), story(view));
  for (const name of ["proxy", "gold"]) write(byId(name), written(now[name]));
  write(byId("kl"), writtenKl(now.kl));
  drawControls();
  drawSample({ ...view, plays: playing > 0 }); // under the hand words change at once
  drawPlane(view);
  drawBars(view);
  drawTable(view);
  drawLadder(view);
  drawTry();
}

/** The last update of the run that is shown. */
function endOf(view) {
  return runOf(view).kl.length - 1;
}

function show(change) {
  Object.assign(view, change);
  asked ||= requestAnimationFrame(draw);
  clearTimeout(linked); // browsers refuse an address that changes with every key
  if (playing) return;
  linked = setTimeout(keepLink, 400);
  tellView();
}

function drawControls() {
  const beta = nameOf(view.beta), { proxy, kl } = valuesOf(runOf(view), view.iteration), klCoef = DATA.betas[view.beta];
  write(byId("objective"), `J = ${scoreName(view.beta).replace("own ", "")} − β·KL = ${written(proxy)} − ${klCoef} × ${writtenKl(kl)} = ${written(proxy - klCoef * kl)}`);
  write(byId("playing"), playing ? "playing" : "");
  write(byId("beta-now"), pushed ? `${beta} is the ${view.beta ? "last" : "first"}` : beta);
  ruler.setAttribute("aria-valuenow", view.beta);
  ruler.setAttribute("aria-valuetext", beta);
  byId("thumb").style.transform = `translateX(${(places[view.beta] * rulerWidth).toFixed(1)}px)`;
  [...byId("stops").children].forEach((stop, at) => stop.classList.toggle("now", at === view.beta));
  const end = endOf(view), made = `${Math.min(view.iteration, end)} of ${end}`;
  iteration.max = end; // its value is then no larger
  if (Number(iteration.value) !== view.iteration) iteration.value = view.iteration;
  iteration.setAttribute("aria-valuetext", made);
  const isCompared = view.iteration === left && !joinedAt(view.beta) && !playing;
  write(byId("iteration-now"), isCompared ? `at your update ${left}` : made);
  for (const name of ["prompt", "which", "seed"]) byId(name).value = view[name];
  write(document.querySelector("[for=iteration] .wide"), `${methodOf(view.beta)} `);
  document.body.classList.toggle("own-reward", Boolean(joinedAt(view.beta)?.ownReward));
  byId("seed").disabled = Boolean(joinedAt(view.beta)); // a run of one's own has one
}

// ---- the ruler of β: logarithmic, 0 at its left end, the reader's own runs right of the largest ----
let places = [];
function placesOf() {
  const betas = DATA.betas.slice(0, TRAINED), logs = betas.filter((beta) => beta > 0).map(Math.log);
  const low = logs[0], wide = logs.at(-1) - low || 1;
  const from = logs.length < TRAINED ? 0.12 : 0, apart = Math.min(clamp(56 / rulerWidth, 0.1, 0.2), 0.5 / (DATA.joined.length || 1));
  const to = 1 - apart * DATA.joined.length;
  const trained = betas.map((beta) => (beta > 0 ? from + ((to - from) * (Math.log(beta) - low)) / wide : 0));
  return [...trained, ...DATA.joined.map((_, at) => to + apart * (at + 1))];
}

function layRuler() {
  places = placesOf();
  ruler.parentElement.style.setProperty("--joined", `${100 * (1 - places[TRAINED - 1])}%`);
  const stops = DATA.betas.map((_, at) => {
    const stop = element("span", joinedAt(at) ? "own" : ""), label = element("i", "", shortName(at));
    stop.style.left = `${100 * places[at]}%`;
    stop.append(label);
    return stop;
  });
  byId("stops").replaceChildren(...stops);
  ruler.setAttribute("aria-valuemax", DATA.betas.length - 1);
}

/** Hide labels that would run into the one before. */
function thinLabels() {
  let free = -Infinity;
  for (const stop of byId("stops").children) {
    const box = stop.firstChild.getBoundingClientRect();
    stop.classList.toggle("crowded", box.left < free);
    if (box.left >= free) free = box.right + 3;
  }
}

/** β is in the reader's hand; what plays plays on at the new β. */
function takeBeta(beta) {
  document.body.classList.add("touched");
  document.body.classList.remove("begins");
  pushed = false;
  if (LIVE.includes(joinedAt(view.beta)) && view.iteration <= endOf(view)) left = view.iteration;
  show({ beta });
}

function pointAt(event) {
  const box = ruler.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
  const gaps = places.map((place) => Math.abs(place - share));
  takeBeta(gaps.indexOf(Math.min(...gaps)));
}

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -2, PageUp: 2, Home: -1e9, End: 1e9 };
function pressKey(event) {
  const known = event.key in STEPS || event.key === " ";
  if (!known || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  if (event.key === " ") return playOrStop();
  const from = view.beta, to = clamp(from + STEPS[event.key], 0, DATA.betas.length - 1);
  takeBeta(to);
  pushed = to === from; // said beside the ruler, and the thumb gives way a little
  if (pushed && !CALM.matches) byId("thumb").animate([{ translate: `${Math.sign(STEPS[event.key]) * 8}px` }, { translate: "0" }], 180);
}

function listenToRuler() {
  ruler.addEventListener("keydown", pressKey);
  document.addEventListener("keydown", (event) => { // before anything has the focus, and in the tour, the arrows are the ruler's
    if ((document.activeElement === document.body || tour.contains(event.target)) && /^Arrow(Left|Right)$/.test(event.key)) pressKey(event);
  });
  ruler.addEventListener("pointerdown", (event) => {
    ruler.setPointerCapture(event.pointerId);
    pointAt(event);
  });
  ruler.addEventListener("pointermove", (event) => {
    if (ruler.hasPointerCapture(event.pointerId)) pointAt(event);
  });
}

// ---- play ----
const PLAY = "M4 2l10 6-10 6z", PAUSE = "M3 2h4v12H3zM9 2h4v12H9z";
function setPlaying(frameNumber) {
  playing = frameNumber;
  byId("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  byId("play").querySelector("path").setAttribute("d", playing ? PAUSE : PLAY);
  byId("story").setAttribute("aria-live", playing ? "off" : "polite"); // not a hundred times in a row
}

function stop() {
  if (!playing) return;
  cancelAnimationFrame(playing);
  setPlaying(0);
  show({});
}

/** From this update to the last; at first it holds still for a while. */
function play(from, still = 0) {
  const pace = FILM / (endOf(view) || 1), began = performance.now() + still - pace * from;
  const step = (time) => {
    const end = endOf(view), at = Math.min(Math.max(Math.floor((time - began) / pace), from), end);
    if (at !== view.iteration) show({ iteration: at });
    if (at === end) stop();
    else playing = requestAnimationFrame(step);
  };
  show({ iteration: from });
  setPlaying(requestAnimationFrame(step));
}

function playOrStop() {
  if (playing) stop();
  else play(view.iteration < endOf(view) ? view.iteration : 0);
}

// ---- the link ----
function address() {
  const names = { beta: DATA.betas[view.beta], iteration: view.iteration, prompt: view.prompt + 1 };
  const seed = DATA.seeds.length > 1 ? { seed: DATA.seeds[view.seed] } : {};
  const world = DATA.world ? { world: DATA.world } : {};
  return `#${new URLSearchParams({ ...world, ...names, sample: view.which, ...seed, ...trainingLink() })}`;
}

function keepLink() {
  if (!EMBEDDED && location.hash !== address()) history.replaceState(null, "", address());
}

/** The view that the address names; what it does not name, or names wrongly, stays. */
function readLink() {
  const said = new URLSearchParams(location.hash.slice(1)), found = {};
  const number = (name) => (said.has(name) && said.get(name) !== "" ? Number(said.get(name)) : NaN);
  const beta = DATA.betas.indexOf(number("beta")), seed = DATA.seeds.indexOf(number("seed"));
  if (beta >= 0) found.beta = beta;
  if (seed >= 0) found.seed = seed;
  const counted = { iteration: [0, last, 0], prompt: [1, DATA.prompts.length, 1], sample: [0, samples, 0] };
  for (const [name, [low, high, first]] of Object.entries(counted)) {
    const value = Math.round(number(name));
    if (value >= low && value <= high) found[name === "sample" ? "which" : name] = value - first;
  }
  readTrainingLink(said);
  return found;
}

async function copyLink() {
  clearTimeout(linked);
  keepLink();
  let said = location.protocol === "file:" ? "Copied. It opens on this machine only." : "Copied.";
  try {
    await navigator.clipboard.writeText(location.href);
  } catch {
    said = "The link is in the address bar.";
  }
  confirmShortly(said);
}

/** Said beside the button for a while. */
function confirmShortly(said) {
  write(byId("copied"), said);
  clearTimeout(confirmed);
  confirmed = setTimeout(() => write(byId("copied"), ""), 5000);
}

// ---- the page ----
const samples = Math.max(...DATA.runs[0][0].shots[0].samples.map((rows) => rows.length));

function options(id, labels) {
  byId(id).replaceChildren(...labels.map((label, at) => new Option(label, at)));
  byId(id).disabled = labels.length < 2;
}

/** Room for the longest sentence and the longest text, and a plane of the right size. */
let laidOut = -1, rulerWidth = 0; // a frame may be without width, at first or while it is hidden
function measure() {
  laidOut = document.body.clientWidth;
  rulerWidth = byId("stops").getBoundingClientRect().width;
  layPlane();
  thinLabels();
}

function layOut() {
  if (!document.body.clientWidth || document.body.clientWidth === laidOut) return;
  measure();
  reserve(byId("story"), longestStories(), write);
  reserve(byId("sample"), longestOf(DATA.runs.flat()), fillWords);
  reserve(byId("sample-facts"), [sampleFacts("The most typical of 3 texts", { proxy: -9.99, gold: -99.99 }, { iteration: last - 1, proxy: -9.99, gold: -99.99 }, "proxy", last)], write);
  reserve(byId("next-title"), DATA.prompts.map((prompt) => `The next word after “${prompt} …”`), write);
  if (byId("ladder-box").open) keepLadder();
  draw();
}

function keepLadder() {
  rungs.forEach((rung, beta) => reserve(rung.text, longestOf(DATA.runs[beta]), fillWords));
}

function listen() {
  listenToRuler();
  iteration.addEventListener("input", () => {
    stop();
    show({ iteration: Number(iteration.value) });
  });
  byId("play").addEventListener("click", playOrStop);
  for (const name of ["prompt", "which", "seed"]) {
    byId(name).addEventListener("change", (event) => show({ [name]: Number(event.target.value) }));
  }
  plane.addEventListener("click", (event) => takeBeta(nearestEnd(event)));
  byId("copy").addEventListener("click", copyLink);
  byId("picture").addEventListener("click", savePicture);
  byId("ladder-box").addEventListener("toggle", () => {
    if (byId("ladder-box").open) keepLadder();
    show({});
  });
  window.addEventListener("hashchange", () => {
    if (recordsNamed() !== source) return location.reload();
    stop();
    show(readLink());
  });
  new ResizeObserver(() => requestAnimationFrame(layOut)).observe(document.body);
}

/** What depends on which stops there are. */
function layStops() {
  layRuler();
  layTable();
  layLadder();
}

/** Runs have joined, or have grown: the view stays where it is. */
function joinRuns(joined) {
  const shown = joinedAt(view.beta);
  takeRuns(joined);
  if (LIVE.includes(shown)) view.beta = TRAINED + DATA.joined.indexOf(shown); // those that Python told of stand before it
  shownSample = "";
  layStops();
  if (document.body.clientWidth) measure();
  else laidOut = -1;
  show({});
}

/** The parts for which there are no records. */
function hideWhatIsNot() {
  byId("seed").parentElement.hidden = DATA.seeds.length < 2;
  byId("which").parentElement.hidden = samples < 2;
  byId("why").parentElement.hidden = !gold;
  const next = byId("next").parentElement;
  next.hidden = !DATA.nextWords.length;
  if (next.hidden) next.after(byId("table").parentElement); // in its place, and no hole in the left column
}

/** What is said of this world, in its places; what follows "|" only where there is room. */
function layTexts() {
  write(byId("command"), DATA.command);
  for (const link of byId("worlds").children) if (link.hash === (DATA.world ? `#world=${DATA.world}` : "")) link.ariaCurrent = "page";
  for (const place of document.querySelectorAll("[data-text]")) {
    if (!(place.dataset.text in TEXTS)) continue;
    const [text, more] = TEXTS[place.dataset.text].split("|");
    place.replaceChildren(text, ...(more ? [element("span", "wide", more)] : []));
  }
}

function start() {
  options("prompt", DATA.prompts.map((prompt) => `${prompt} …`));
  options("which", ["typical", ...Array.from({ length: samples }, (_, at) => `${at + 1} of ${samples}`)]);
  options("seed", DATA.seeds);
  hideWhatIsNot();
  layTexts();
  if (EMBEDDED) byId("beta-doc").replaceWith(byId("beta-doc").textContent); // there it lies beside nothing
  layStops();
  layBars();
  layTry();
  layTraining();
  layInspector();
  const named = readLink(), opening = !EMBEDDED && !CALM.matches && !Object.keys(named).length;
  Object.assign(view, named, opening || EMBEDDED ? { iteration: 0 } : {});
  layOut();
  for (const part of document.querySelectorAll("[aria-busy]")) part.removeAttribute("aria-busy"); // now nothing moves
  if (DATA.rounds.length) ask(false);
  else byId("ship-box").hidden = true;
  listen();
  layTour();
  if (opening) play(0, HOLD);
  offerWire();
}

start();
