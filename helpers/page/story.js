// One sentence that says what is happening now, from the numbers alone.
const EARLY = 0.3; // share of the updates that are first steps
const MOST = 0.6; // of the gain in gold that the best β brings
const AROUND = 2; // updates before and after: the highest of a hundred noisy values would be noise

function meanOf(values, from, to) {
  const some = values.slice(Math.max(from, 0), to + 1);
  return some.reduce((sum, x) => sum + x, 0) / some.length;
}

/** Where a curve was highest until now, as a mean of neighbours: {at, value}. */
function peakUntil(values, iteration) {
  let best = { at: 0, value: values[0] };
  for (let at = 1; at <= iteration; at++) {
    const value = meanOf(values, at - AROUND, Math.min(at + AROUND, iteration));
    if (value > best.value) best = { at, value };
  }
  return best;
}

/** What the sentences compare with: the highest proxy and the best last gold of this seed's runs. */
const yardsticks = DATA.seeds.map((_, seed) => {
  const runs = DATA.runs.slice(0, TRAINED).map((row) => row[seed]);
  const ends = runs.map((run) => run.gold.at(-1));
  const best = ends.indexOf(Math.max(...ends));
  const rise = Math.max(...runs.flatMap((run) => run.gold)) - runs[0].gold[0];
  return { proxy: Math.max(...runs.flatMap((run) => run.proxy)), best, gold: ends[best], little: 0.1 * rise };
});

function afterTheTurn(now, run, peak, yardstick) {
  const from = `from about ${written(peak.value, 1)} (near update ${peak.at}) to ${written(now.gold)}`;
  const half = (peak.value + run.gold[0]) / 2;
  if (now.gold < half && now.proxy > 0.95 * yardstick.proxy) {
    return `The proxy score is about the highest of all, and gold has fallen ${from}: nobody would read this.`;
  }
  const rises = now.proxy > run.proxy[peak.at] + yardstick.little / 2;
  return `Gold has fallen ${from}${rises ? ", while proxy went on rising: the reward model is being fooled." : "."}`;
}

function atTheEnd(view, now, start, yardstick) {
  if (now.gold > yardstick.gold - yardstick.little) {
    return "Proxy and gold have risen together: no other β of this seed ends much higher in gold.";
  }
  const best = `gold ends at ${written(now.gold)}, at β = ${DATA.betas[yardstick.best]} it ends at ${written(yardstick.gold)}`;
  if (view.beta < yardstick.best) return `Further away, not better: ${best}.`;
  const share = (now.gold - start) / (yardstick.gold - start);
  return share < MOST ? `Safe, and timid: drifting costs so much that ${best}.` : `Close to home, with most of the gain: ${best}.`;
}

/** From where to where: of the reader's own run, and where gold was not measured. */
function storyOfOwn(joined, run, now) {
  const rise = (name) => `${written(run[name][0])} to ${written(now[name])}`;
  const gold = run.gold[0] === null || now.gold === null ? "" : `, gold from ${rise("gold")}`;
  const reward = joined?.ownReward ? "its own reward" : "the proxy score";
  const nats = writtenKl(Math.max(now.kl, 0));
  return `${joined ? "Your run after" : "After"} ${now.iteration} updates: ${reward} went from ${rise("proxy")}${gold}, ${nats} nats away.`;
}

function story(view) {
  const run = runOf(view), now = valuesOf(run, view.iteration), yardstick = yardsticks[view.seed];
  if (now.iteration === 0) return "Nothing has moved yet: every run begins as the reference.";
  const joined = joinedAt(view.beta);
  if (joined || now.gold === null) return storyOfOwn(joined, run, now);
  const peak = peakUntil(run.gold, now.iteration);
  const measured = now.iteration === run.kl.length - 1; // on many fresh responses, not on one rollout
  const gold = measured ? now.gold : meanOf(run.gold, now.iteration - AROUND, now.iteration);
  if (peak.value - gold > yardstick.little) return afterTheTurn(now, run, peak, yardstick);
  if (measured) return atTheEnd(view, now, run.gold[0], yardstick);
  const nats = writtenKl(Math.max(now.kl, 0)), half = Math.floor(now.iteration / 2);
  if (gold - meanOf(run.gold, half - AROUND, half) > yardstick.little) {
    return `Proxy and gold rise together: the policy has moved ${nats} nats, and its reviews are better.`;
  }
  if (gold - run.gold[0] > yardstick.little) return `The price holds it at ${nats} nats from the reference; proxy and gold have risen and stay.`;
  return now.iteration > EARLY * last
    ? `Drifting costs too much: ${nats} nats from the reference, little has changed.`
    : `The first steps away: ${nats} nats from the reference.`;
}

/** The longest sentences there are, to keep room for. */
const longestStories = once(() => {
  const all = new Set();
  DATA.betas.forEach((_, beta) =>
    DATA.seeds.forEach((_, seed) => {
      for (let iteration = 0; iteration <= last; iteration++) all.add(story({ beta, seed, iteration }));
    }),
  );
  return [...all].sort((a, b) => b.length - a.length).slice(0, 12);
});
