// "Write a beginning of your own": the reference and a policy, loaded when asked for, read it and go on.
const ROWS = 8; // next words shown
const loaded = new Map(); // name → policy; each file is a classic script beside the page, since a page
let writing = false, draws = null, shownTitle = ""; // the random numbers of what stands there, and whose it is
globalThis.POLICY_FILES = {}; // from the disk may not fetch its neighbours

function loadPolicy(name) {
  if (loaded.has(name)) return loaded.get(name);
  const waiting = EMBEDDED ? askPython(name).then(readPolicy) : new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = `policies/${name}.js`;
    script.addEventListener("load", () => done(readPolicy(POLICY_FILES[name])));
    script.addEventListener("error", () => failed(new Error(`policies/${name}.js is not beside this page.`)));
    document.head.append(script);
  });
  loaded.set(name, waiting);
  waiting.catch(() => loaded.delete(name)); // it may be asked for again
  return waiting;
}

/** The most likely next words of either, and what each makes of them, as rows of bars. */
function nextRows(words, [now, before]) {
  const order = now.map((_, at) => at).sort((a, b) => Math.max(now[b], before[b]) - Math.max(now[a], before[a]));
  return order.slice(0, ROWS).map((at) => {
    const bar = makeBar();
    bar.best.remove(); // it is not known
    fillBar(bar, words[at], now[at], before[at]);
    return bar.row;
  });
}

/** Which words of a text the model does not know, each with those it knows that begin alike. */
function unknownTold(policy, text) {
  const alike = (word) => policy.words.filter((one) => one.startsWith(word.slice(0, Math.max(3, word.length - 2)))).slice(0, 3).join(", ");
  const unknown = cutWords(text).filter((word) => !policy.places.has(word));
  return unknown.map((word) => `The model does not know “${word}”${alike(word) && `; it knows ${alike(word)}`}.`).join(" ");
}

function textOfOwn(title, prompt, { words, drift }) {
  const box = element("div", "own"), text = element("div", "own-text");
  fillWords(text, { prompt, sample: { tokens: words, drift } });
  box.append(element("h3", "", title), text, element("p", "fine", pointsOf(plain(prompt, words))));
  return box;
}

/** Of the policies beside this page the one whose β is nearest to the ruler's, by ratio: {name, title}. */
function nearestPolicy() {
  const size = (beta) => Math.log(beta + 0.001), wanted = size(DATA.betas[view.beta]);
  const known = DATA.policies.map((name) => ({ name, beta: Number(name.replace("beta_", "")) }));
  const { name, beta } = known.reduce((best, one) => (Math.abs(size(one.beta) - wanted) < Math.abs(size(best.beta) - wanted) ? one : best));
  return { name, title: joinedAt(view.beta) ? `Not your run: the recorded policy nearest in β, β = ${beta}` : `Trained at β = ${beta}` };
}

function writeOn({ policy, reference, title }, tokens, prompt) {
  const inTurn = (left) => () => left.next().value, goOnAs = (writer, reader) => writeResponse(writer, reader, tokens, inTurn(draws.values()));
  const before = goOnAs(reference, policy), now = goOnAs(policy, reference);
  byId("try-next").replaceChildren(...nextRows(policy.words, now.next));
  byId("try-texts").replaceChildren(
    textOfOwn("Before training", prompt, { ...before, drift: before.drift.map((x) => -x) }),
    textOfOwn(title, prompt, now),
  );
}

/** Both write on, with the random numbers that are there; what stood there before is put away if they cannot. */
async function tryOwn() {
  if (writing) return;
  writing = true;
  const { name, title } = nearestPolicy(), prompt = byId("try-text").value.trim();
  shownTitle = title;
  if (!loaded.has(name)) write(byId("try-said"), "Loading the policies …");
  try {
    if (!prompt) throw new Error("Write a word or two for it to begin with.");
    const [reference, policy] = await Promise.all([loadPolicy("reference"), loadPolicy(name)]);
    const tokens = encode(policy, prompt);
    const most = policy.positions - LONGEST_RESPONSE;
    if (tokens.length > most) throw new Error(`That is too long: ${most - 1} words at most.`);
    write(byId("try-said"), unknownTold(policy, prompt));
    writeOn({ policy, reference, title }, tokens, prompt);
  } catch (problem) {
    write(byId("try-said"), problem.message);
    for (const id of ["try-next", "try-texts"]) byId(id).replaceChildren();
  }
  writing = false;
  drawTry();
}

/** What is being typed: its unknown words, and its gold once a full stop ends it. */
async function readOwn() {
  const field = byId("try-text"), text = field.value;
  write(byId("try-gold"), /[.!]\s*$/.test(text) ? pointsOf(text) : "");
  const reference = await loadPolicy("reference").catch(() => null);
  if (reference && field.value === text) write(byId("try-said"), unknownTold(reference, text));
}

/** What was written follows the ruler. */
function drawTry() {
  if (draws && nearestPolicy().title !== shownTitle) tryOwn();
}

function layTry() {
  byId("try-box").hidden = !DATA.policies.length;
  write(byId("try-betas"), DATA.policies.map((name) => name.replace("beta_", "")).join(", "));
  byId("try-text").addEventListener("input", readOwn);
  byId("try-form").addEventListener("submit", (event) => {
    event.preventDefault();
    draws = Array.from({ length: LONGEST_RESPONSE }, Math.random);
    tryOwn();
  });
}
