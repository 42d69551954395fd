// KL against score: the reference, the frontier, ★, and two trails, proxy and gold.
const plane = byId("plane");
const EDGE = { left: 44, right: 16, top: 50, bottom: 44 };
const frame = { width: 600, height: 400 };
const parts = {}; // the artists that move

let reach = { far: 0, low: 0, high: 0 }; // what the axes hold; they stand still while no run leaves them

/** Axes that hold every run that there is, and the frontier. */
function holdRuns() {
  const runs = DATA.runs.flat(), others = DATA.otherEnds, known = (values) => values.filter((value) => value !== null);
  const heights = [...runs.flatMap((run) => known([...run.proxy, ...run.gold])), ...DATA.frontier.map(([, score]) => score),
    ...others.flatMap((end) => [end.proxy, end.gold])];
  const distances = [...runs.flatMap((run) => run.kl), ...DATA.frontier.map(([kl]) => kl), ...others.map((end) => end.kl)];
  reach = { far: Math.max(reach.far, ...distances), low: Math.min(reach.low, ...heights), high: Math.max(reach.high, ...heights) };
}

/** Logarithmic from about 1 nat on, linear below, so that both the frontier and β = 0 are seen. */
function across(kl) {
  const share = Math.log1p(Math.max(kl, 0)) / Math.log1p(reach.far * 1.05);
  return EDGE.left + share * (frame.width - EDGE.left - EDGE.right);
}

const CROWDED = 30; // pixels
const KNEE = -2, SHOULDER = 5;
/** Linear between −2 and 5, logarithmic beyond: the gold of a collapsed policy, and a reward of one's own, would flatten all the rest. */
function bent(score) {
  const inside = clamp(score, KNEE, SHOULDER);
  return inside + Math.sign(score - inside) * Math.log1p(Math.abs(score - inside));
}

function up(score) {
  const low = bent(reach.low), high = bent(reach.high), margin = 0.05 * (high - low);
  const share = (bent(score) - low + margin) / (high - low + 2 * margin);
  return frame.height - EDGE.bottom - share * (frame.height - EDGE.top - EDGE.bottom);
}

function mark(tag, name, attributes = {}, text = "") {
  const made = document.createElementNS(plane.namespaceURI, tag);
  if (name) made.setAttribute("class", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text) made.textContent = text;
  plane.append(made);
  return made;
}

const point = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const diamond = (size) => `M0 ${-size}L${size} 0L0 ${size}L${-size} 0Z`;
const star = "M0-11L2.7-3.6L10.5-3.4L4.3 1.4L6.5 8.9L0 4.5L-6.5 8.9L-4.3 1.4L-10.5-3.4L-2.7-3.6Z";

/** The places of a run after 0, 1, … updates: ["x y", …]; where held-out prompts were measured, only those and what is shown now. */
function pathOf(run, name, now) {
  const isDrawn = (at) => run[name][at] !== null && (at === now || (run.heldOut?.includes(at) ?? true));
  return run[name].map((score, at) => (isDrawn(at) ? point(across(run.kl[at]), up(score)) : null));
}

/** A path through the places that there are. */
function line(places) {
  const known = places.filter(Boolean);
  return known.length ? `M${known.join("L")}` : "";
}

function axes() {
  const room = frame.width - EDGE.left - EDGE.right;
  const round = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].filter((kl) => kl <= reach.far * 1.05);
  const ticks = [];
  for (const kl of round) if (!ticks.length || across(kl) - across(ticks.at(-1)) > 32) ticks.push(kl);
  const { low, high } = reach, beyond = [5, 10, 20, 50, 100, 200, 500];
  const scores = [-2, -1, 0, 1, 2, 3, ...beyond, ...beyond.map((score) => -score)].filter((score) => score >= low && score <= high);
  for (const score of scores) {
    mark("line", "grid", { x1: EDGE.left, x2: EDGE.left + room, y1: up(score), y2: up(score) });
    mark("text", "", { x: EDGE.left - 8, y: up(score) + 4, "text-anchor": "end" }, written(score, 0));
  }
  for (const kl of ticks) {
    mark("line", "grid", { x1: across(kl), x2: across(kl), y1: EDGE.top, y2: frame.height - EDGE.bottom });
    mark("text", "", { x: across(kl), y: frame.height - EDGE.bottom + 17, "text-anchor": "middle" }, `${kl}`);
  }
  const words = frame.width < 420 ? "KL from the reference, nats (log)" : "KL from the reference, nats a response (logarithmic)";
  mark("text", "", { x: EDGE.left + room, y: frame.height - 8, "text-anchor": "end" }, words);
  const bends = [low < KNEE && "below −2", high > SHOULDER && "above 5"].filter(Boolean).join(" and ");
  mark("text", "", { x: 2, y: 11 }, `higher is better${bends && `; logarithmic ${bends}`}`);
}

/** Above the plot each β stands where its run ends. */
function betaLabels() {
  mark("text", "at", { x: 2, y: EDGE.top - 9 }, "β =");
  parts.betas = DATA.runs.map(([run], beta) => {
    const end = across(valuesOf(run, last).kl), half = 3.6 * shortName(beta).length, x = Math.max(end, 30 + half); // right of "β ="
    mark("line", "tick", { x1: end, x2: end, y1: EDGE.top - 5, y2: EDGE.top });
    return { beta, from: x - half, to: x + half, label: mark("text", "at", { x, y: EDGE.top - 9, "text-anchor": "middle" }, shortName(beta)) };
  });
}

/** The β that is shown has its label; of the others those that run into none before. */
function thinBetas(now) {
  const shown = [];
  for (const one of [parts.betas[now], ...parts.betas]) {
    const free = shown.every(({ from, to }) => one.to + 4 < from || one.from - 4 > to);
    if (free) shown.push(one);
    one.label.setAttribute("visibility", shown.includes(one) ? "visible" : "hidden");
    one.label.classList.toggle("now", one.beta === now);
  }
}

/** The β whose end mark is nearest to a click. */
function nearestEnd({ clientX, clientY }) {
  const box = plane.getBoundingClientRect(), scale = frame.width / box.width;
  const [x, y] = [scale * (clientX - box.left), scale * (clientY - box.top)];
  const away = DATA.runs.map((row) => {
    const end = valuesOf(row[0], last), heights = [end.proxy, end.gold].filter((score) => score !== null);
    return Math.min(...[...heights.map(up), EDGE.top - 13].map((height) => Math.hypot(across(end.kl) - x, height - y)));
  });
  return away.indexOf(Math.min(...away));
}

/** Two marks where a run ends, so large; which run it is, on hover. */
function markEnd(end, name, radius) {
  const x = across(end.kl), dots = [mark("circle", "end proxy", { cx: x, cy: up(end.proxy), r: radius })];
  if (end.gold !== null) dots.push(mark("path", "end gold", { d: diamond(1.2 * radius), transform: `translate(${point(x, up(end.gold))})` }));
  const words = `${name}: proxy ${written(end.proxy)}, gold ${written(end.gold)}, KL ${writtenKl(end.kl)}`;
  for (const dot of dots) dot.append(mark("title", "", {}, words));
}

function ends() {
  DATA.runs.forEach((row, beta) =>
    row.forEach((run, seed) => {
      if (joinedAt(beta) && (seed || joinedAt(beta).ownReward)) return; // once; and in other units nowhere
      if (joinedAt(beta)) for (const name of ["gold", "proxy"]) mark("path", `ahead joined ${name}`, { d: line(pathOf(run, name)) });
      const name = joinedAt(beta) || DATA.seeds.length < 2 ? nameOf(beta) : `${nameOf(beta)}, seed ${DATA.seeds[seed]}`;
      markEnd(valuesOf(run, last), name, 3.5);
    }),
  );
  for (const end of DATA.otherEnds) markEnd(end, `β = ${end.beta}, another run`, 2);
}

/** Draw the still parts anew and make the moving ones. Letters and marks grow with the page's font. */
function layPlane() {
  const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  const width = (plane.getBoundingClientRect().width || 600) / scale;
  Object.assign(frame, { width, height: clamp(0.72 * width, 250, 420) });
  plane.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  plane.style.height = `${frame.height * scale}px`;
  plane.replaceChildren();
  holdRuns();
  axes();
  ends();
  const curve = [[0, DATA.start], ...DATA.frontier].map(([kl, score]) => point(across(kl), up(score)));
  mark("path", "frontier", { d: `M${curve.join("L")}` });
  const [farthest, highest] = DATA.frontier.at(-1) ?? [0, DATA.start];
  parts.most = mark("text", "label quiet", { x: EDGE.left + 6, y: Math.max(up(highest) - 26, EDGE.top + 13) }, DATA.frontier.length && `${frame.width < 420 ? "most proxy" : "the most proxy possible"} (known up to KL ${written(farthest, 1)})`);
  parts.mostBox = parts.most.getBBox(); // read once: a read at each key lays the page out twice
  betaLabels();
  for (const name of ["gold", "proxy"]) {
    parts[`${name}Ahead`] = mark("path", `ahead ${name}`);
    parts[name] = mark("path", `trail ${name}`);
  }
  mark("rect", "start", { x: across(0) - 5, y: up(DATA.start) - 5, width: 10, height: 10 });
  parts.star = mark("path", "star", { d: star });
  parts.goldDot = mark("path", "dot gold", { d: diamond(8) });
  parts.proxyDot = mark("circle", "dot proxy", { r: 6.5 });
  parts.starLabel = mark("text", "label", {}, "π*");
  for (const name of ["gold", "proxy"]) parts[`${name}Label`] = mark("text", "label", {}, name);
}

/** Each name beside its own mark, free of other names and marks: near it, and covering little of the lines. */
function placeLabels(marks, lines) {
  const { x: left, y: top, width, height } = parts.mostBox, floor = frame.height - EDGE.bottom;
  const taken = [[left - 3, top, left + width + 3, top + height], ...marks.map(({ x, y }) => [x - 9, y - 6, x + 9, y + 6])];
  const within = ([left, top, right, bottom]) => ([x, y]) => x > left && x < right && y > top && y < bottom;
  const apart = (one, other) => one[0] > other[2] || one[2] < other[0] || one[1] > other[3] || one[3] < other[1];
  const inside = ([left, top, right, bottom]) => left > EDGE.left && right < frame.width && top > EDGE.top && bottom < floor;
  for (const { label, x, y } of marks) {
    const wide = 7.6 * label.textContent.length, [right, left, middle] = [x + 12, x - 12 - wide, x - wide / 2];
    const beside = [right, left].flatMap((from) => [0, 5, -5, 10, -10, 15, -15].map((down) => [from, down]));
    const boxes = [...beside, [middle, -16], [middle, 16], [right, 30], [left, 30]].map(([from, down]) => [from, y + down - 6.5, from + wide, y + down + 6.5]);
    const free = boxes.filter((one) => inside(one) && taken.every((other) => apart(one, other)));
    const cost = (box) => lines.filter(within(box)).length + ((box[1] + 6.5 - y) / 4) ** 2;
    const box = free.reduce((best, one) => (cost(one) < cost(best) ? one : best), free[0] ?? boxes[0]);
    taken.push(box);
    label.setAttribute("transform", `translate(${point(box[0], box[3] - 2)})`);
  }
}

function drawPlane(view) {
  const run = runOf(view), now = valuesOf(run, view.iteration), marks = [], lines = DATA.frontier.map(([kl, score]) => [across(kl), up(score)]);
  write(parts.proxyLabel, scoreName(view.beta));
  for (const name of ["proxy", "gold"]) {
    const path = pathOf(run, name, now.iteration), here = path[now.iteration];
    lines.push(...path.filter(Boolean).map((place) => place.split(" ").map(Number)));
    parts[`${name}Ahead`].setAttribute("d", line(path.slice(now.iteration)));
    parts[name].setAttribute("d", line(path.slice(0, now.iteration + 1)));
    for (const part of ["Dot", "Label"]) parts[name + part].setAttribute("visibility", here ? "visible" : "hidden");
    if (!here) continue;
    parts[`${name}Dot`].setAttribute("transform", `translate(${here})`);
    marks.push({ label: parts[`${name}Label`], x: across(now.kl), y: up(now[name]) });
  }
  const best = optimumOf(view), place = best && { x: across(best.kl), y: up(best.score) };
  const isNamed = best && marks.every(({ x, y }) => Math.hypot(x - place.x, y - place.y) > CROWDED); // else the star is enough
  for (const [name, shown] of Object.entries({ star: best, starLabel: isNamed })) parts[name].setAttribute("visibility", shown ? "visible" : "hidden");
  if (best) parts.star.setAttribute("transform", `translate(${point(place.x, place.y)})`);
  if (isNamed) marks.push({ label: parts.starLabel, ...place });
  placeLabels(marks, lines);
  thinBetas(view.beta);
}
