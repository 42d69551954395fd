// Texts word by word, next words as bars, the table, the ladder of all β.
const CLOSE_UP = ".,!?;:", GLUE = "\u2060"; // no blank before these, nor before what begins so
const isGlued = (token) => CLOSE_UP.includes(token) || token.startsWith(GLUE);
const FULL = 3, STRONGEST = 62; // nats at which a colour is full; percent of it in the paper
const STOP = "</s>";
const LONG = 120, SMALLER = 0.6; // letters from which a text is set smaller; the room that it then takes

function chip(token, drift, tag = "span") {
  const made = element(tag, "word", token === STOP ? "end" : token);
  if (token === STOP) made.classList.add("stop");
  if (Math.abs(drift) >= 0.1) made.classList.add(drift > 0 ? "more" : "less");
  made.style.setProperty("--share", `${Math.round(STRONGEST * Math.min(Math.abs(drift) / FULL, 1))}%`);
  made.title = `${drift > 0 ? "+" : ""}${written(drift, 1)} nats: log π − log π_ref${token === STOP ? ", of ending here" : ""}`;
  return made;
}

const lettersOf = ({ tokens }) => tokens.join(" ").length;
/** The prompt and the response's words on their colours; those that were not there before appear softly. */
function fillWords(target, { prompt, sample, before = null }) {
  const nodes = [element("span", "given", prompt)];
  sample.tokens.forEach((token, at) => {
    const word = chip(token, sample.drift[at]);
    if (before && before[at] !== token) word.classList.add("fresh");
    nodes.push(isGlued(token) ? GLUE : " ", word);
  });
  const text = element("div", lettersOf(sample) > LONG ? "long" : "");
  text.append(...nodes);
  target.replaceChildren(text);
}

/** The texts of these runs that take most room, to keep it. */
function longestOf(runs) {
  const all = new Map();
  for (const run of runs) {
    for (const shot of run.shots) {
      DATA.prompts.forEach((prompt, place) =>
        shot.samples[place].forEach((_, which) => {
          const sample = sampleOf(shot, place, which);
          all.set(`${prompt} ${sample.tokens.join(" ")}`, { prompt, sample });
        }),
      );
    }
  }
  const room = ({ sample }) => lettersOf(sample) * (lettersOf(sample) > LONG ? SMALLER : 1);
  return [...all.values()].sort((a, b) => room(b) - room(a)).slice(0, 24);
}

let shownSample = "", shownTokens = null;
function drawSample(view) {
  const { shot, means, sample } = shownText(view), prompt = DATA.prompts[view.prompt];
  const key = [view.beta, view.seed, shot.iteration, view.prompt, view.which].join();
  if (key === shownSample) return;
  shownSample = key;
  fillWords(byId("sample"), { prompt, sample, before: view.plays ? shownTokens : null });
  shownTokens = sample.tokens;
  const kind = view.which || samples < 2 ? "One draw" : `The most typical of ${shot.samples[view.prompt]?.length} texts`;
  write(byId("sample-facts"), sampleFacts(kind, sample, means, scoreName(view.beta), Math.min(view.iteration, endOf(view))));
  if (gold) write(byId("why"), pointsOf(plain(prompt, sample.tokens)));
  write(byId("times"), joinedAt(view.beta)?.liked ? timesFacts(joinedAt(view.beta), shot.iteration, sample) : "");
}

/** A text's own scores beside the means of all texts: one draw may well be far from them. */
function sampleFacts(kind, { proxy, gold }, means, score = "proxy", now = means.iteration) {
  const when = means.iteration === 0 ? "before training" : `of update ${means.iteration}`, later = now > means.iteration ? ` (now ${now})` : "";
  return `${kind} ${when}${later}: ${score} ${written(proxy)} (mean ${written(means.proxy)}), gold ${written(gold)} (mean ${written(means.gold)}).`;
}

const RARE = 0.01; // times per response
/** How often each liked word stands in this text, in a text on average, and in one from before training. */
function timesFacts({ liked, run }, iteration, { tokens }) {
  return liked.map((word, at) => {
    const here = tokens.filter((one) => one === word).length, [before, mean] = [0, iteration].map((update) => written(run.times[update][at]));
    return `“${word}”: ${here} here, mean ${mean} (before training ${before}${run.times[0][at] < RARE ? ": what is not sampled is not rewarded" : ""})`;
  }).join("\n");
}

// ---- next words ----
const bars = [];
/** An empty row: a word, its bars, its percentages. */
function makeBar() {
  const row = element("div", "bar"), track = element("div", "track"), [word, value] = [element("b"), element("span")];
  const [now, before, best] = ["now", "before", "best"].map((name) => element("i", name));
  track.append(now, before, best);
  row.append(word, track, value);
  return { row, word, now, before, best, value };
}

/** The probability of a word now (null: not known) and before. */
function fillBar(bar, word, now, before) {
  write(bar.word, named(word));
  bar.now.style.transform = `scaleX(${now ?? 0})`;
  bar.before.style.transform = `scaleX(${before})`;
  write(bar.value, `${percent(now)} (${percent(before)})`);
}

function layBars() {
  bars.push(...Array.from({ length: 1 + Math.max(...DATA.nextWords.map(({ length }) => length)) }, makeBar));
  byId("next").append(...bars.map(({ row }) => row));
}

/** A word as a row is called: signs in quotes, or they would not be seen. */
function named(word) {
  if (word === STOP) return "(end)";
  return word && CLOSE_UP.includes(word) ? `“${word}”` : word;
}

/** A probability in percent, with one decimal where it is small. */
function percent(share) {
  return written(share && 100 * share, share !== null && share < 0.1 ? 1 : 0);
}

/** The probabilities in per mille, and what is left for all other words. */
function withRest(perMille) {
  return perMille && [...perMille, Math.max(0, 1000 - perMille.reduce((sum, p) => sum + p, 0))];
}

function drawBars(view) {
  if (!DATA.nextWords.length) return;
  const words = [...DATA.nextWords[view.prompt], "all others"], run = runOf(view);
  const now = withRest(shotOf(run, view.iteration).next[view.prompt]);
  const before = withRest(DATA.runs[0][view.seed].shots[0].next[view.prompt]);
  const best = withRest(optimumOf(view)?.next[view.prompt]);
  write(byId("next-prompt"), DATA.prompts[view.prompt]);
  bars.forEach((bar, at) => {
    fillBar(bar, words[at] || "", now && now[at] / 1000, before[at] / 1000);
    bar.word.className = at === words.length - 1 ? "rest" : "";
    bar.best.style.visibility = best ? "visible" : "hidden";
    if (best) bar.best.style.transform = `translateX(${best[at] / 10}%)`;
  });
}

// ---- the table ----
let rows = [];
function layTable() {
  rows = DATA.betas.map((_, beta) => {
    const row = element("tr"), head = element("th", "", joinedAt(beta)?.label ?? shortName(beta)), note = element("small");
    head.scope = "row";
    head.append(note);
    row.addEventListener("click", () => takeBeta(beta));
    const cells = Array.from({ length: 5 }, () => element("td"));
    row.append(head, ...cells);
    return { row, note, cells };
  });
  byId("table").tBodies[0].replaceChildren(...rows.map(({ row }) => row));
}

function drawTable(view) {
  const seed = DATA.seeds.length > 1 ? `, seed ${DATA.seeds[view.seed]}` : "";
  write(byId("table").caption, `After ${updates(view.iteration)}${seed}`);
  rows.forEach(({ row, note, cells }, beta) => {
    const now = valuesOf(runOf(view, beta), view.iteration), joined = joinedAt(beta);
    const made = LIVE.includes(joined) && `${now.iteration} of ${RLOO.iterations} updates, RLOO`;
    write(note, [made, joined?.ownReward && "own reward"].filter(Boolean).join("; "));
    const own = now.proxy - DATA.betas[beta] * now.kl, best = optimumOf(view, beta);
    const texts = [written(now.proxy), written(now.gold), writtenKl(now.kl), written(own), written(best && best.value)];
    texts.forEach((text, at) => write(cells[at], text));
    row.ariaCurrent = beta === view.beta ? "true" : null;
  });
}

// ---- the ladder ----
let rungs = [];
function layLadder() {
  rungs = DATA.betas.map((_, beta) => {
    const rung = element("li"), scores = element("div", "scores"), text = element("div");
    const numbers = element("span");
    scores.append(element("b", "", `${nameOf(beta)} `), numbers);
    rung.append(scores, text);
    return { rung, numbers, text, shown: "" };
  });
  byId("ladder").replaceChildren(...rungs.map(({ rung }) => rung));
}

function drawLadder(view) {
  if (!byId("ladder-box").open) return;
  rungs.forEach((rung, beta) => {
    const { shot, sample } = shownText(view, beta);
    const key = [view.seed, shot.iteration, view.prompt, view.which].join();
    if (key === rung.shown) return;
    rung.shown = key;
    fillWords(rung.text, { prompt: DATA.prompts[view.prompt], sample });
    write(rung.numbers, `${scoreName(beta)} ${written(sample.proxy)}\ngold ${written(sample.gold)}`);
  });
}
