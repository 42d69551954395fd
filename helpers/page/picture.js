// The view as a picture: headline, numbers, text and plane, drawn on a canvas and saved as a PNG.
const PICTURE = { width: 1200, margin: 48, sharp: 2 };
const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font", "paint-order", "visibility"];

/** The plane as an SVG text that needs no style sheet. */
function planeAlone(width, height) {
  const copy = plane.cloneNode(true), sources = plane.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((node, at) => {
    const style = getComputedStyle(sources[at]);
    for (const name of COPIED) node.style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("xmlns", plane.namespaceURI);
  return new XMLSerializer().serializeToString(copy);
}

function loadPicture(svg) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  return picture.decode().then(() => picture);
}

/** Words in lines no wider than this. */
function linesOf(pen, text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (pen.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** A colour of the theme that now holds, as canvas knows it. */
function coloured(selector, property) {
  return getComputedStyle(document.querySelector(selector))[property];
}

/** What the picture says, from top to bottom: [text, font, colour, height of a line]. */
function pictureTexts() {
  const now = valuesOf(runOf(view), view.iteration), ink = coloured("body", "color"), soft = coloured(".fine", "color");
  const { sample } = shownText(view);
  const place = location.protocol.startsWith("http") ? `, ${location.host}${location.pathname}` : "";
  const title = `${nameOf(view.beta)}, after ${updates(now.iteration)} (${methodOf(view.beta)})`;
  const numbers = `${scoreName(view.beta)} ${written(now.proxy)}   ·   gold ${written(now.gold)}   ·   KL ${writtenKl(now.kl)} nats`;
  return [
    [title, "700 40px system-ui, sans-serif", ink, 52],
    [numbers, "600 30px system-ui, sans-serif", ink, 46],
    [story(view), "600 26px system-ui, sans-serif", ink, 36],
    [`“${plain(DATA.prompts[view.prompt], sample.tokens)}”`, "34px Georgia, serif", ink, 46],
    [`${scoreName(view.beta) === "proxy" ? "proxy: the reward model’s score" : "own reward: chosen in the page"}, which training raises. gold: ${document.querySelector("[data-text=gold]").textContent}. KL: how far the policy is from the reference.`, "20px system-ui, sans-serif", soft, 28],
    [`Source: ${LIVE.includes(joinedAt(view.beta)) ? "trained in the page" : `recorded runs, “${DATA.command}”`}, in “${document.title}”${place}`, "20px system-ui, sans-serif", soft, 28],
  ];
}

async function picture() {
  const { width, margin, sharp } = PICTURE, room = width - 2 * margin;
  const high = Math.round((room * frame.height) / frame.width);
  const drawn = await loadPicture(planeAlone(sharp * room, sharp * high));
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  const blocks = pictureTexts().map(([text, font, colour, line]) => {
    pen.font = font;
    return { lines: linesOf(pen, text, room), font, colour, line };
  });
  const texts = blocks.reduce((sum, block) => sum + block.lines.length * block.line + 10, 0);
  canvas.width = sharp * width;
  canvas.height = sharp * (2 * margin + texts + high);
  pen.scale(sharp, sharp);
  pen.fillStyle = coloured(".card", "backgroundColor");
  pen.fillRect(0, 0, width, 2 * margin + texts + high);
  let y = margin;
  for (const { lines, font, colour, line } of blocks) {
    Object.assign(pen, { font, fillStyle: colour });
    for (const text of lines) pen.fillText(text, margin, (y += line));
    y += 10;
  }
  pen.drawImage(drawn, margin, y + 14, room, high);
  return canvas;
}

async function savePicture() {
  const canvas = await picture(), link = element("a");
  link.download = `drift-beta-${DATA.betas[view.beta]}-update-${view.iteration}.png`;
  link.href = canvas.toDataURL("image/png");
  link.click();
  confirmShortly(`Saved: ${link.download}`);
}
