// In a notebook's frame Python follows what is shown, moves it, and lets runs join. The other end is widget.js.
const EMBEDDED = document.documentElement.hasAttribute("data-embedded"); // it has no address of its own either
const SELDOM = 80; // milliseconds between two messages to Python
const wire = new MessageChannel();
let telling = 0;

function tellView() {
  if (!EMBEDDED) return;
  telling ||= setTimeout(() => {
    const { beta, seed, prompt, iteration } = view;
    telling = 0;
    wire.port1.postMessage({ beta, seed, prompt, iteration });
  }, SELDOM);
}

/** Of what Python asks for, the places that there are. */
function placesThere(asked) {
  const most = { beta: DATA.betas.length, seed: DATA.seeds.length, prompt: DATA.prompts.length, iteration: last + 1 };
  const there = ([name, at]) => name in most && Number.isInteger(at) && at >= 0 && at < most[name];
  return Object.fromEntries(Object.entries(asked).filter(there));
}

/** Models that the page asks for: in a notebook Python has them, elsewhere they are files beside the page. */
const wanted = new Map(); // name → what waits for it
function askPython(name) {
  wire.port1.postMessage({ ask: name });
  return new Promise((done) => wanted.set(name, done));
}

function hearPython({ data }) {
  if (data.models) byId("train-box").hidden = false;
  if (data.model) wanted.get(data.name)?.(data.model);
  if (data.joined) joinRuns(data.joined);
  if (data.view) {
    stop();
    show(placesThere(data.view));
  }
}

function offerWire() {
  if (!EMBEDDED) return;
  wire.port1.onmessage = hearPython;
  parent.postMessage("drift-page", "*", [wire.port2]);
}

/** The page around a frame says which theme it has; without a word the system's holds. */
window.addEventListener("message", ({ data }) => {
  if (EMBEDDED && ["light", "dark"].includes(data?.theme)) document.documentElement.style.colorScheme = data.theme;
});
