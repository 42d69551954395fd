// A first look in four steps. Offered once in a card below, which covers nothing that moves; asked for again by a button.
const TOUR = [
  ["bar", "Move β with the arrow keys or a finger. On the left drifting is free; on the right every nat costs much."],
  ["sample", "This is what the policy writes now. Blue words it says more often than before training, orange ones less often."],
  ["plane", "To the right: further from where it began. Up: a higher score. Watch whether gold, the readers' score, follows proxy, the one it is trained on."],
  ["ship-box", "Then choose between texts without knowing which β wrote them, and see who agrees with you."],
];
const SEEN = "drift-tour-seen";
const tour = byId("tour");
let tourStep = -1;

/** Whether the offer was answered before; where a browser keeps nothing, it was. */
function tourSeen() {
  try {
    return localStorage.getItem(SEEN) !== null;
  } catch {
    return true;
  }
}

function rememberTour() {
  try {
    localStorage.setItem(SEEN, "yes");
  } catch {
    // then it is offered again
  }
}

function tourButton(label, act) {
  const made = element("button", "", label);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

function fillTour(words, ...buttons) {
  const row = element("div", "row");
  row.append(...buttons);
  tour.replaceChildren(element("p", "", words), row);
  tour.hidden = false;
}

function offerTour() {
  const show = tourButton("Show me", () => stepTour(0));
  fillTour("New here? Four steps, half a minute.", show, tourButton("No, thanks", endTour));
}

function endTour() {
  rememberTour();
  markTarget(-1);
  tour.hidden = true;
  byId("tour-again").focus({ preventScroll: true });
}

function markTarget(at) {
  tourStep = at;
  for (const [id] of TOUR) byId(id).classList.toggle("toured", at >= 0 && id === TOUR[at][0]);
}

function stepTour(at) {
  if (at === TOUR.length) return endTour();
  const [id, words] = TOUR[at], calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  markTarget(at);
  const last = at === TOUR.length - 1;
  const next = tourButton(last ? "Done" : "Next", () => stepTour(at + 1));
  fillTour(`${at + 1} of ${TOUR.length}. ${words}`, next, ...(last ? [] : [tourButton("Stop", endTour)]));
  byId(id).scrollIntoView({ block: "center", behavior: calm ? "auto" : "smooth" });
  next.focus({ preventScroll: true });
}

function layTour(offered) {
  byId("tour-again").addEventListener("click", () => stepTour(0));
  tour.addEventListener("keydown", (event) => {
    if (event.key === "Escape") endTour();
  });
  if (offered && !tourSeen()) offerTour();
}
