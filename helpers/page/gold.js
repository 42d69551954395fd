// Gold of any text, as gold_score of helpers/world/gold.py gives it, from what gold.py exports.
//   const gold = readGold(DATA.gold);
//   gold(text)        → points
//   gold.points(text) → [{text, status, points, why: [[what, points], …]}], one a sentence; the points sum to the score
// `text` is a string, or a list of words without "</s>". Nothing else of the page is used here.
const isStop = (word) => word === "." || word === "!";

/** A text cut at its stops, "! !" being one: {tokens, sentences: [{words, stop}], placeOf: the sentence of each token}. */
function cutText(text) {
  const tokens = [text].flat().join(" ").toLowerCase().match(/[a-z]+|[^\sa-z]/gu) ?? [];
  const sentences = [], placeOf = [];
  let words = [];
  for (const word of tokens) {
    const again = word === "!" && !words.length && sentences.at(-1)?.stop === "!";
    placeOf.push(sentences.length - again);
    if (!isStop(word)) words.push(word);
    else if (!again) {
      sentences.push({ words, stop: word });
      words = [];
    }
  }
  if (words.length || !sentences.length) sentences.push({ words, stop: "" });
  return { tokens, sentences, placeOf };
}

/** Judge of sentences: sets the status of each. All that are accepted fit one domain; the first of them decide. */
function makeJudge({ roots, intro, states, sets }) {
  const next = states.map(() => new Map()), words = sets.map((text) => text.split(" "));
  states.forEach((steps, from) => {
    for (let i = 0; i < steps.length; i += 2) words[steps[i]].forEach((word) => next[from].set(word, steps[i + 1]));
  });
  const accepts = (root, words) => words.reduce((state, word) => next[state]?.get(word), root) !== undefined;
  const sumsUp = (words) => words.some((_, at) => accepts(intro, [...words.slice(0, at + 1), "."]));
  const fits = ([first, later], { words, stop }, isFirst) => {
    const start = !isFirst ? [later] : sumsUp(words) ? [first] : [first, later];
    return words.length > 0 && start.some((root) => accepts(root, stop ? [...words, "."] : words));
  };
  return (sentences) => {
    let domains = roots;
    sentences.forEach((sentence, at) => {
      const fitting = domains.filter((domain) => fits(domain, sentence, at === 0));
      sentence.status = !fitting.length ? "broken" : sentence.stop ? "accepted" : "unfinished";
      if (fitting.length) domains = fitting;
    });
  };
}

/** Finder of opinions, as opinions.py finds them: [{phrase, value, worth, links, about, subject, at}]. */
function makeFinder(facts) {
  const strengths = new Map(Object.entries(facts.opinions)), degrees = new Map(Object.entries(facts.degrees));
  const [negators, aspects, advice, breaks] = ["negators", "aspects", "advice", "breaks"].map((name) => new Set(facts[name]));
  const valueOf = (strength, times, negated) =>
    negated ? (facts.points.NEGATION * clip(strength)) / Math.max(1, times) : strength * times;
  const clip = (strength) => Math.max(-1, Math.min(1, strength));
  return ({ tokens, placeOf }) => {
    const found = [];
    let links = [], aspect = "", negated = false;
    tokens.forEach((word, i) => {
      if (breaks.has(word)) [links, aspect, negated] = [[...links, word], "", false];
      else if (negators.has(word)) negated = true;
      else if (aspects.has(word)) aspect = word;
      else if (strengths.has(word)) {
        const degree = degrees.has(tokens[i - 1]) ? tokens[i - 1] : "";
        const about = tokens[i + 1] === "it" ? "it" : tokens[i + 1] === "the" && aspects.has(tokens[i + 2]) ? tokens[i + 2] : aspect;
        const subject = about && about !== "it" ? about.replace(/s$/, "") : advice.has(word) ? "advice" : "it";
        const value = valueOf(strengths.get(word), degrees.get(degree) ?? 1, negated);
        const phrase = [negated && "not", degree, word].filter(Boolean).join(" ");
        found.push({ phrase, value, worth: Math.min(facts.points.STRONGEST, Math.abs(value)), links, about, subject, at: placeOf[i] });
        links = [];
      }
    });
    return found;
  };
}

/** Contradictions, each once: an aspect praised and blamed, or opposites joined by "and". */
function findContradictions(opinions) {
  const last = new Map(), found = new Map();
  opinions.forEach(({ phrase, value, links, about, at }, i) => {
    const before = opinions[i - 1], joined = links.includes("and") && links.every((link) => link === "and" || link === ",");
    if (about && last.get(about) * value < 0) found.set(`${about} praised and blamed`, at);
    else if (joined && before?.value * value < 0) found.set(`${before.phrase} and ${phrase}`, at);
    last.set(about, value);
  });
  return [...found].map(([what, at]) => [at, what]);
}

/** Opinions, the strongest first, the k-th divided by k: [sentence, what, points]. */
function diminishing(name, opinions, sign) {
  const ordered = [...opinions].sort((a, b) => b.worth - a.worth);
  return ordered.map(({ at, phrase, worth }, i) => [at, `${name}: ${phrase}${i ? `, 1/${i + 1} of it` : ""}`, (sign * worth) / (i + 1)]);
}

function readGold(facts) {
  const judge = makeJudge(facts), findOpinions = makeFinder(facts), cost = facts.points;
  const superlatives = new Set(facts.superlatives);
  const mayRepeat = new Set(["!", ...facts.sets.flatMap((text) => text.split(" "))]); // known words but opinions and aspects
  for (const word of [...facts.aspects, ...Object.keys(facts.opinions)]) mayRepeat.delete(word);

  const earlier = (found, i) => found.slice(0, i).filter(([, what]) => what === found[i][1]).length;
  const charge = (name, price, found, times = () => 1) =>
    found.map(([at, what], i) => [at, `${name}: ${what}`, -price * times(found, i)]);

  /** Everything that is blamed but opinions, as gold.py lists it: [sentence, what, points]. */
  function costs({ tokens, sentences, placeOf }, opinions) {
    const pick = (test) => tokens.flatMap((word, i) => (test(word, i) ? [[placeOf[i], word]] : []));
    const turns = opinions.filter(({ value, links }, i) =>
      i && value * opinions[i - 1].value > 0 && links.includes("but") && !links.some(isStop));
    const neutral = sentences.map(({ words, status }, at) => [at, words.slice(0, 3).join(" "), status])
      .filter(([at, , status]) => status === "accepted" && !opinions.some((one) => one.at === at));
    const broken = sentences.map(({ words, status }, at) => [at, words.length, status]).filter(([, , status]) => status === "broken");
    return [
      ...charge("hype", cost.HYPE_COST, pick((word) => superlatives.has(word)).slice(1)),
      ...charge("hype", cost.EXCLAMATION_COST, pick((word) => word === "!").slice(1)),
      ...charge("hype", cost.DEGREE_COST, pick((word) => facts.degrees[word] >= cost.STRONG_DEGREE).slice(cost.FREE_DEGREES)),
      ...charge("doubled", cost.DOUBLE_COST, pick((word, i) => word === tokens[i - 1] && !isStop(word) && word !== ",")),
      ...charge("repeated", cost.REPEAT_COST, pick((word) => !mayRepeat.has(word)), earlier),
      ...charge("contradiction", cost.CONTRADICTION_COST, findContradictions(opinions)),
      ...charge("no turn", cost.BUT_COST, turns.map(({ at, phrase }) => [at, `but ${phrase}`])),
      ...charge("repeated", cost.RESTATED_COST, neutral.filter((_, i) => earlier(neutral, i))),
      ...broken.map(([at, length]) => [at, "outside the grammar", -cost.BROKEN_COST - cost.BROKEN_WORD_COST * length]),
      ...(sentences.at(-1).stop ? [] : [[sentences.length - 1, "no full stop at the end", -cost.STOP_COST]]),
    ];
  }

  function points(text) {
    const cut = cutText(text), { sentences } = cut, opinions = findOpinions(cut);
    judge(sentences);
    const good = opinions.filter(({ value, at }) => value > 0 && sentences[at].status === "accepted");
    const bySubject = new Map(good.sort((a, b) => a.worth - b.worth).map((one) => [one.subject, one])); // the strongest of each
    const parts = [...diminishing("praise", bySubject.values(), 1),
      ...diminishing("blame", opinions.filter(({ value }) => value < 0), -1), ...costs(cut, opinions)];
    const below = cost.LOWEST - sum(parts.map(([, , value]) => value));
    if (below > 0) parts.push([sentences.length - 1, "no text is worse than this", below]);
    return sentences.map(({ words, stop, status }, at) => {
      const why = new Map(); // what there is twice is told once
      for (const [place, what, value] of parts) if (place === at && value) why.set(what, (why.get(what) ?? 0) + value);
      return { text: words.join(" ").replaceAll(" ,", ",") + stop, status, points: sum([...why.values()]), why: [...why] };
    });
  }

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  return Object.assign((text) => sum(points(text).map((sentence) => sentence.points)), { points });
}
