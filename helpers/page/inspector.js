// The token inspector: one update of the live run, token by token, under five algorithms; then what it changes.
const inspected = { responses: [], klCoef: 0, prompt: 0, at: 0, t: 0, applied: false };
const THOUSAND = 1000; // terms are shown in thousandths: a rollout has about a thousand tokens
const DEEPER = 6; // an update moves a token by tenths of a nat

function askInspection() {
  training.going = false; // the worker answers one question at a time
  drawTraining();
  byId("inspect-go").disabled = true;
  askWorker({ inspect: true });
}

/** A rollout has come: the first group is shown, of it the token that the update moves most. */
function takeInspection({ responses, klCoef }) {
  Object.assign(inspected, { responses, klCoef, applied: false });
  byId("inspect-go").disabled = false;
  const asked = responses.filter((_, at) => at % RLOO.group === 0).map(({ prompt }) => `${textOfTokens(prompt)} …`);
  options("inspect-prompt", asked);
  byId("inspect-rest").hidden = false;
  showGroup(0);
}

function textOfTokens(tokens) {
  const words = tokens.filter((token) => token > UNKNOWN_TOKEN).map((token) => training.policy.words[token]);
  return plain("", words).trim();
}

function showGroup(prompt) {
  const moved = ({ newLogprobs, logprobs }) => newLogprobs.map((now, t) => Math.abs(now - logprobs[t]));
  const places = inspected.responses.flatMap((one, at) => (Math.floor(at / RLOO.group) === prompt ? moved(one).map((move, t) => ({ move, at, t })) : []));
  const { at, t } = places.reduce((most, one) => (one.move > most.move ? one : most));
  Object.assign(inspected, { prompt, at, t });
  drawInspection();
}

/** A response as buttons; once the update is applied, coloured by what it does to each token. */
function responseRow(response, at) {
  const row = element("li"), { prompt, tokens, logprobs, newLogprobs, score, kl, advantage } = response;
  row.append(element("p", "fine", `score ${written(score)}, KL ${written(kl)}, advantage ${signed(advantage)}`), element("span", "given", textOfTokens(prompt)), " ");
  tokens.forEach((token, t) => {
    const button = chip(training.policy.words[token], inspected.applied ? DEEPER * (newLogprobs[t] - logprobs[t]) : 0, "button");
    button.removeAttribute("title");
    button.type = "button";
    button.setAttribute("aria-pressed", at === inspected.at && t === inspected.t);
    button.addEventListener("click", () => {
      Object.assign(inspected, { at, t });
      drawInspection();
      byId("inspect-texts").querySelector("[aria-pressed=true]").focus();
    });
    row.append(button, " ");
  });
  return row;
}

function termRow({ name, ratio, advantage, term, slope, clipped }) {
  const row = element("tr"), head = element("th", "", name);
  head.scope = "row";
  const texts = [ratio === null ? "–" : written(ratio, 3), signed(advantage), signed(THOUSAND * term), clipped ? "clipped: 0" : signed(-THOUSAND * slope)];
  row.append(head, ...texts.map((text) => element("td", "number", text)));
  return row;
}

function drawInspection() {
  const { responses, klCoef, prompt, at, t, applied } = inspected, from = prompt * RLOO.group;
  byId("inspect-texts").replaceChildren(...responses.slice(from, from + RLOO.group).map((one, i) => responseRow(one, from + i)));
  const { tokens, logprobs, refLogprobs, newLogprobs, predicted } = responses[at], change = newLogprobs[t] - logprobs[t];
  const now = applied ? responses : responses.map((one) => ({ ...one, newLogprobs: one.logprobs }));
  byId("inspect-terms").tBodies[0].replaceChildren(...tokenTerms(now, klCoef, RLOO.group, at, t).map(termRow));
  write(byId("inspect-terms").caption, `Token ${t + 1} of ${tokens.length}, ${named(training.policy.words[tokens[t]])}: log π ${written(logprobs[t])}, log π_ref ${written(refLogprobs[t])}`);
  write(byId("inspect-said"), applied
    ? `The update changed its log π by ${signed(change)}; to first order, the gradient predicts ${signed(predicted[t])}. The table is now that of a second epoch on this rollout.`
    : "Before the update every ratio is 1, and nothing is clipped.");
  write(byId("inspect-apply"), applied ? "Take it back" : "Apply the update");
}

function layInspector() {
  byId("inspect-go").addEventListener("click", askInspection);
  byId("inspect-prompt").addEventListener("change", (event) => showGroup(Number(event.target.value)));
  byId("inspect-apply").addEventListener("click", () => {
    inspected.applied = !inspected.applied;
    drawInspection();
  });
}
