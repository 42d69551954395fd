// The records of the sweep, and what of them is shown: {beta, seed, prompt, which, iteration}, all numbers of places.
const DATA = await readRecords(document.getElementById("records"));
const LAST = Math.max(...DATA.runs.flat().map((run) => run.kl.length - 1));
const byId = (id) => document.getElementById(id);

/** The records as they stand in the page: JSON, or JSON compressed and in base64. */
async function readRecords(holder) {
  if (holder.type === "application/json") return JSON.parse(holder.textContent);
  const bytes = Uint8Array.from(atob(holder.textContent), (letter) => letter.charCodeAt(0));
  const whole = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(whole).json();
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

function runOf(view, beta = view.beta) {
  return DATA.runs[beta][view.seed];
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

/** One kept response: {proxy, gold, tokens, drift}, drift in nats. */
function sampleOf(shot, prompt, which) {
  const rows = shot.samples[prompt];
  if (!rows.length) return { proxy: null, gold: null, tokens: [], drift: [] };
  const [proxy, gold, numbers, tenths] = rows[Math.min(which, rows.length - 1)];
  return { proxy, gold, tokens: numbers.map((n) => DATA.words[n]), drift: tenths.map((x) => x / 10) };
}

/** A number as the page writes it, with a real minus sign; a dash for what was not measured. */
function written(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** KL in nats: large ones without decimals that say nothing. */
function writtenKl(value) {
  return written(value, value === null || Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0);
}

/** A function that does its work once and then knows the answer. */
function once(make) {
  let kept = null;
  return () => (kept ??= make());
}

// ---- elements ----
function element(tag, name = "", text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
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
