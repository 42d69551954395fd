// The records of the sweep, and what of them is shown: {beta, seed, prompt, which, iteration}, all numbers of places.
// The place "beta" counts the stops of the ruler: the sweep's β, then the reader's own runs that have joined.
// The address may name another world than the first: other records of the same shape.
const byId = (id) => document.getElementById(id);
const recordsNamed = () => byId(`records-${new URLSearchParams(location.hash.slice(1)).get("world")}`) ?? byId("records");
const source = recordsNamed(), DATA = JSON.parse(source.textContent);
const TEXTS = DATA.texts ?? {}; // in place of what page and sentences say of the first world
const TRAINED = DATA.betas.length;
DATA.joined = []; // {label, beta, ownReward, optimum, run}
const LIVE = []; // those of them that this page has trained (train/panel.js)
let told = { words: DATA.words, runs: [] }; // those that Python told of
let last = lastUpdate();
const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const gold = DATA.gold && readGold(DATA.gold); // of any text, also of one that no run has written; null where it is no such grammar

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/** The last update of any run. */
function lastUpdate() {
  return Math.max(...DATA.runs.flat().map((run) => run.kl.length - 1));
}

/** The reader's own runs: they stand after the trained β, in place of those before; the page's own come last. */
function takeRuns(from = told) {
  told = from;
  const runs = [...told.runs, ...LIVE];
  DATA.words = told.words;
  DATA.joined = runs;
  DATA.betas.splice(TRAINED, Infinity, ...runs.map((one) => one.beta));
  DATA.optima.splice(TRAINED, Infinity, ...runs.map((one) => one.optimum));
  DATA.runs.splice(TRAINED, Infinity, ...runs.map((one) => DATA.seeds.map(() => one.run)));
  last = lastUpdate();
}

/** The reader's own run at this stop of the ruler; nothing at a trained β. */
function joinedAt(beta) {
  return DATA.joined[beta - TRAINED];
}

/** The algorithm of the run at this stop: the page itself trains without a critic. */
function methodOf(beta) {
  return LIVE.includes(joinedAt(beta)) ? "RLOO" : TEXTS.method ?? "PPO";
}

/** A stop of the ruler in words. */
function nameOf(beta) {
  return joinedAt(beta)?.label ?? `β = ${DATA.betas[beta]}`;
}

/** The same, as short as it stands on the ruler and above the plane. */
function shortName(beta) {
  return joinedAt(beta)?.key ?? `${DATA.betas[beta]}`;
}

/** What stands in the proxy's place, by its name. */
function scoreName(beta) {
  return joinedAt(beta)?.ownReward ? "own reward" : "proxy";
}

function runOf(view, beta = view.beta) {
  return DATA.runs[beta][view.seed];
}

/** π* at this β, on the reward model of the run shown; null where it is not known. */
function optimumOf(view, beta = view.beta) {
  return runOf(view, beta).optimum ?? DATA.optima[beta];
}

/** Proxy, gold and KL after this many updates, or at the run's end; null where not measured. */
function valuesOf(run, iteration) {
  const at = Math.min(iteration, run.kl.length - 1);
  return { iteration: at, proxy: run.proxy[at], gold: run.gold[at], kl: run.kl[at] };
}

/** The latest snapshot not after this update. */
function shotOf(run, iteration) {
  return run.shots.findLast((shot) => shot.iteration <= iteration) || run.shots[0];
}

/** One kept response: {proxy, gold, tokens, drift}, drift in nats; tokens are kept as numbers, or as words. */
function sampleOf(shot, prompt, place) {
  const rows = shot.samples[prompt];
  if (!rows?.length) return { proxy: null, gold: null, tokens: [], drift: [] };
  const [proxy, gold, numbers, tenths] = rows[Math.min(place, rows.length - 1)];
  return { proxy, gold, tokens: numbers.map((n) => DATA.words[n] ?? n), drift: tenths.map((x) => x / 10) };
}

/** The text that the view shows at this β: the kept one of this number, or (0) the one nearest to the means in proxy and gold. */
function shownText(view, beta = view.beta) {
  const run = runOf(view, beta), shot = shotOf(run, view.iteration), means = valuesOf(run, shot.iteration);
  const away = (shot.samples[view.prompt] ?? []).map(([proxy, gold]) => Math.hypot(proxy - means.proxy, gold - means.gold));
  return { shot, means, sample: sampleOf(shot, view.prompt, view.which ? view.which - 1 : away.indexOf(Math.min(...away))) };
}

/** A number as the page writes it, with a real minus sign; a dash for what was not measured. */
function written(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** "1 update", "2 updates". */
function updates(count) {
  return `${count} update${count === 1 ? "" : "s"}`;
}

/** KL in nats: large ones without decimals that say nothing. */
function writtenKl(value) {
  return written(value, value === null || Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0);
}

// ---- elements ----
function element(tag, name = "", text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

function makeButton(label, act) {
  const made = element("button", "", label);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** Write a text only where it changed. */
function write(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** Keep the height that the tallest of these fillings takes, so that nothing below ever moves. */
function reserve(target, fillings, fill) {
  const probe = target.cloneNode(false);
  probe.removeAttribute("id");
  probe.removeAttribute("aria-live");
  probe.style.cssText = "position:absolute;visibility:hidden;min-height:0";
  probe.style.width = `${target.getBoundingClientRect().width}px`;
  const style = getComputedStyle(target);
  for (const name of ["font", "lineHeight", "letterSpacing"]) probe.style[name] = style[name];
  target.after(probe);
  let tallest = 0;
  for (const filling of fillings) {
    fill(probe, filling);
    tallest = Math.max(tallest, probe.getBoundingClientRect().height);
  }
  probe.remove();
  target.style.minHeight = `${Math.ceil(tallest)}px`;
}
