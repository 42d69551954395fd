// "Which would you ship?": two texts blind; proxy and gold disagree about each pair.
const ship = { round: 0, choices: [], order: [] };

function textOf([beta, seed, which], prompt) {
  return sampleOf(DATA.runs[beta][seed].shots.at(-1), prompt, which);
}

/** The words with blanks as people write them. */
function plain(prompt, tokens) {
  const words = tokens.filter((token) => token !== STOP).map((token) => (isGlued(token) ? token.replace(GLUE, "") : ` ${token}`));
  return prompt + words.join("");
}

/** Ask about the next pair. Left and right are drawn by lot; 0 is the text that the proxy prefers. */
function ask(focus = true) {
  const [prompt, ...two] = DATA.rounds[ship.round];
  const order = Math.random() < 0.5 ? [0, 1] : [1, 0];
  const title = element("p", "verdict", `${ship.round + 1} of ${DATA.rounds.length}`);
  const texts = element("div", "texts");
  order.forEach((place) => {
    const sample = textOf(two[place], prompt);
    texts.append(makeButton(plain(DATA.prompts[prompt], sample.tokens), () => choose(place)));
  });
  byId("ship").replaceChildren(title, texts);
  if (focus) texts.firstChild.focus({ preventScroll: true });
}

function choose(place) {
  ship.choices.push(place);
  ship.round += 1;
  if (ship.round < DATA.rounds.length) ask();
  else reveal();
}

function textRow(choice, place, prompt, of) {
  const sample = textOf(of, prompt);
  const row = element("tr", [place === 0 && "pair", choice === place && "chosen"].filter(Boolean).join(" "));
  const words = plain(DATA.prompts[prompt], sample.tokens);
  const numbers = [written(sample.proxy), written(sample.gold)].map((text) => element("td", "number", text));
  const head = element("th", "", `${DATA.betas[of[0]]}`);
  head.scope = "row";
  const text = element("td", "", `${choice === place ? "✓ " : ""}${words}`);
  text.append(element("div", "fine", pointsOf(words)));
  row.append(head, text, ...numbers);
  return row;
}

function reveal() {
  const count = ship.choices.length, gold = ship.choices.filter((place) => place === 1).length;
  const verdict = element("p", "verdict",
    `In ${gold} of ${count} pairs you chose as gold does, in ${count - gold} as the reward model does.`);
  verdict.tabIndex = -1;
  const table = element("table"), head = element("tr");
  for (const name of ["β", "text (✓ your choice)", "proxy", "gold"]) {
    const cell = element("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  table.createTHead().append(head);
  DATA.rounds.forEach(([prompt, ...two], round) => {
    two.forEach((of, place) => body.append(textRow(ship.choices[round], place, prompt, of)));
  });
  const again = makeButton("Once more", () => {
    Object.assign(ship, { round: 0, choices: [] });
    ask();
  });
  const chosen = element("p", "fine", "The pairs are not typical: for each beginning, they are the two last texts about which reward model and gold disagree most.");
  byId("ship").replaceChildren(verdict, chosen, table, again);
  verdict.focus({ preventScroll: true });
}
