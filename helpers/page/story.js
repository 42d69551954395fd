// One sentence that says what is happening now, from the numbers alone.
const EARLY = 0.3; // share of the updates that are first steps
const SLOW = 1.4; // times as far as after half of the updates: no further, for a KL that keeps growing a little
const MOST = 0.6; // of the gain in gold that the best β brings
const AROUND = 2; // updates before and after: the highest of a hundred noisy values would be noise

const meanOf = (values, from, to) => average(values.slice(Math.max(from, 0), to + 1));

/** Gold without its noise: as recorded, or means of neighbours; the last, measured on many fresh responses, as it is. */
function smooth(run) {
  const end = run.gold.length - 1;
  run.smooth ||= run.gold.map((gold, at) => (at === end ? gold : meanOf(run.gold, at - AROUND, Math.min(at + AROUND, end - 1))));
  return run.smooth;
}

/** What the sentences compare with: the highest proxy and the best last gold of this seed's runs. */
const yardsticks = DATA.seeds.map((_, seed) => {
  const runs = DATA.runs.slice(0, TRAINED).map((row) => row[seed]);
  const ends = runs.map((run) => run.gold.at(-1));
  const best = ends.indexOf(Math.max(...ends));
  const rise = Math.max(...runs.flatMap((run) => run.gold)) - runs[0].gold[0];
  return { proxy: Math.max(...runs.flatMap((run) => run.proxy)), best, gold: ends[best], little: 0.1 * rise };
});

/** Where gold's means stand: {gold, peak, later: the highest from here on, rose, low: below it all is lost}. */
function course(run, at, little) {
  const means = smooth(run), peak = Math.max(...means.slice(0, at + 1)), start = run.gold[0], rose = peak - start > 2 * little;
  const low = rose ? (peak + start) / 2 : start - little; // half of the rise, or the reference
  return { gold: means[at], peak, later: Math.max(...means.slice(at)), rose, low };
}

function afterTheTurn(now, run, { later, low, peak }, { proxy, little }) {
  const highest = Math.max(...run.gold.slice(0, now.iteration + 1)), when = run.gold.indexOf(highest);
  const was = `${written(highest)} at update ${when}`;
  if (Math.max(now.gold, later) > low) {
    return `Gold was ${was} and is ${written(now.gold)} now. ${later > peak - little ? "Later it comes back." : "It does not get there again."}`;
  }
  const fallen = `old has fallen from ${was} to ${written(now.gold)}`;
  if (now.proxy > 0.95 * proxy) return `Proxy is almost as high as it ever gets, but g${fallen}: nobody would read this.`;
  const rises = now.proxy > run.proxy[when] + little / 2;
  return `G${fallen}${rises ? ", while proxy went on rising: the reward model is being fooled." : "."}`;
}

function atTheEnd(view, now, start, yardstick) {
  if (now.gold > yardstick.gold - yardstick.little) {
    return "Proxy and gold have risen together: no other β ends much higher in gold.";
  }
  const best = `gold ends at ${written(now.gold)}, at β = ${DATA.betas[yardstick.best]} it ends at ${written(yardstick.gold)}`;
  if (view.beta < yardstick.best) return `Further away, not better: ${best}.`;
  const share = (now.gold - start) / (yardstick.gold - start);
  return share < MOST ? `Safe, and timid: with so high a KL penalty ${best}.` : `Closer to the reference, with most of the gain: ${best}.`;
}

/** On the way: what has risen, and whether the KL penalty holds the policy where it is. */
function onTheWay(view, now, run, gold, little) {
  const half = Math.floor(now.iteration / 2), nats = `${writtenKl(Math.max(now.kl, 0))} nats from the reference`;
  const better = gold - run.gold[0] > little && now.gold > run.gold[0] && now.proxy > run.proxy[0];
  const far = (at) => meanOf(run.kl, at - AROUND, at + AROUND), slow = far(now.iteration) < SLOW * far(half) + 0.1;
  if (DATA.betas[view.beta] > 0 && now.iteration > EARLY * last && slow) {
    return `The KL penalty holds it at ${nats}; ${better ? "proxy and gold are higher than there" : "little has changed"}.`;
  }
  if (better && gold - smooth(run)[half] > little) return `Proxy and gold rise together: ${nats}, and ${TEXTS.better ?? "its reviews are better"}.`;
  return better ? `Proxy and gold have risen: ${nats}, and it moves on.` : `${now.iteration > EARLY * last ? "It moves" : "The first steps"} away: ${nats}.`;
}

/** From where to where: of the reader's own run, and where gold was not measured. */
function storyOfOwn(joined, run, now) {
  const rise = (name) => `${written(run[name][0])} to ${written(now[name])}`;
  const gold = run.gold[0] === null || now.gold === null ? "" : `, gold from ${rise("gold")}`;
  const reward = joined?.ownReward ? "its own reward" : "the proxy score";
  const nats = writtenKl(Math.max(now.kl, 0));
  return `${joined ? "Your run after" : "After"} ${updates(now.iteration)}: ${reward} went from ${rise("proxy")}${gold}, ${nats} nats away.`;
}

function story(view) {
  const run = runOf(view), now = valuesOf(run, view.iteration), yardstick = yardsticks[view.seed];
  if (now.iteration === 0) return "Nothing has moved yet: every run begins as the reference.";
  const joined = joinedAt(view.beta);
  if (joined || run.gold.includes(null)) return storyOfOwn(joined, run, now);
  const found = course(run, now.iteration, yardstick.little);
  if (found.gold < found.low || (found.rose && found.peak - found.gold > yardstick.little)) return afterTheTurn(now, run, found, yardstick);
  if (now.iteration === run.kl.length - 1) return atTheEnd(view, now, run.gold[0], yardstick);
  return onTheWay(view, now, run, found.gold, yardstick.little);
}

/** The longest sentences there are, to keep room for. */
function longestStories() {
  const all = new Set();
  DATA.betas.forEach((_, beta) =>
    DATA.seeds.forEach((_, seed) => {
      for (let iteration = 0; iteration <= last; iteration++) all.add(story({ beta, seed, iteration }));
    }),
  );
  return [...all].sort((a, b) => b.length - a.length).slice(0, 12);
}
