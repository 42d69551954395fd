// Why a text has its gold: each sentence with its points and what they are for.

function signed(value) {
  return `${value > 0 ? "+" : ""}${written(value)}`;
}

/** Sentences outside the grammar that follow one another as one: a collapsed policy writes little else. */
function joinBroken(sentences) {
  return sentences.reduce((joined, sentence) => {
    const last = joined.at(-1);
    if (last?.status !== "broken" || sentence.status !== "broken") return [...joined, sentence];
    const why = new Map(last.why);
    for (const [what, value] of sentence.why) why.set(what, (why.get(what) ?? 0) + value);
    return [...joined.slice(0, -1), { ...last, text: `${last.text} ${sentence.text}`, points: last.points + sentence.points, why: [...why] }];
  }, []);
}

function pointsRow({ text, points, why }) {
  const row = element("li"), reasons = why.map(([what, value]) => (why.length > 1 ? `${what} ${signed(value)}` : what));
  row.append(element("b", "", signed(points)), element("span", "", text), element("i", "", reasons.join("; ") || "no opinion"));
  return row;
}

/** The gold of a text and, in a list, of its sentences: nodes to put under the text. */
function explainGold(text) {
  const list = element("ul", "points fine");
  list.append(...joinBroken(gold.points(text)).map(pointsRow));
  return [element("p", "fine", `gold ${written(gold(text))}, sentence by sentence:`), list];
}
