// "Write a beginning of your own": the reference and a policy, loaded when asked for, read it and go on.
const LONGEST = 24, ROWS = 8; // tokens of a response, as in training; next words shown
const loaded = new Map(); // name → policy; each file is a classic script beside the page, since a page
let writing = false;
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
function nextRows(policy, reference, tokens) {
  const [now, before] = [policy, reference].map((one) => readAll(one, tokens).logprobs.map(Math.exp));
  const order = now.map((_, at) => at).sort((a, b) => Math.max(now[b], before[b]) - Math.max(now[a], before[a]));
  return order.slice(0, ROWS).map((at) => {
    const row = element("div", "bar"), track = element("div", "track");
    const bars = [["now", now[at]], ["before", before[at]]].map(([name, share]) => {
      const bar = element("i", name);
      bar.style.transform = `scaleX(${share})`;
      return bar;
    });
    track.append(...bars);
    row.append(element("b", "", named(policy.words[at])), track, element("span", "", written(100 * now[at], now[at] < 0.1 ? 1 : 0)));
    return row;
  });
}

function textOfOwn(title, prompt, response) {
  const box = element("div", "own"), text = element("div", "own-text");
  const sample = { tokens: response.map(({ word }) => word), drift: response.map(({ drift }) => drift) };
  fillWords(text, { prompt, sample });
  box.append(element("h3", "", title), text, ...explainGold(plain(prompt, sample.tokens)));
  return box;
}

async function tryOwn() {
  const prompt = byId("try-text").value.trim(), name = byId("try-beta").value;
  if (!prompt) return write(byId("try-said"), "Write a word or two for it to begin with.");
  if (writing) return;
  writing = true;
  write(byId("try-said"), "Loading the policies …");
  try {
    const [reference, policy] = await Promise.all([loadPolicy("reference"), loadPolicy(name)]);
    const tokens = encode(policy, prompt), strange = unknownWords(policy, prompt);
    if (tokens.length + LONGEST > policy.positions) throw new Error(`That is too long: ${policy.positions - LONGEST - 1} words at most.`);
    write(byId("try-said"), strange.length ? `It has never seen: ${strange.join(", ")}.` : "");
    byId("try-next").replaceChildren(...nextRows(policy, reference, tokens));
    byId("try-texts").replaceChildren(
      textOfOwn("Before training", prompt, writeResponse(reference, policy, tokens, LONGEST).map((one) => ({ ...one, drift: -one.drift }))),
      textOfOwn(`Trained at β = ${name.replace("beta_", "")}`, prompt, writeResponse(policy, reference, tokens, LONGEST)),
    );
  } catch (problem) {
    write(byId("try-said"), problem.message);
  }
  writing = false;
}

function layTry() {
  byId("try-box").hidden = !DATA.policies.length;
  byId("try-beta").replaceChildren(...DATA.policies.map((name) => new Option(name.replace("beta_", ""), name)));
  showGoldOf(byId("try-text"), byId("try-gold"));
  byId("try-form").addEventListener("submit", (event) => {
    event.preventDefault();
    tryOwn();
  });
}
