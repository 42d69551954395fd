// A first look in four steps, in a card at the foot of the window; what it speaks of stands above it.
const TOUR = [
  ["bar", "Drag β, or press ← and →. At the left end drifting is free; at the right end each nat away costs much."],
  ["sample", "This is what the model writes now. Blue words it says more often than before training, orange ones less often."],
  ["plane", "Right: further from where it began. Up: a higher score. Does gold, the real quality, follow proxy, which training raises?"],
  ["ship-box", "Then choose between texts without knowing which β wrote them, and see who agrees with you."],
];
const tour = byId("tour"), root = document.documentElement;

function tourButton(label, act) {
  const made = element("button", "", label);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** Put the tour away; the focus goes to what is then in sight. */
function endTour(target) {
  markTarget(-1);
  tour.hidden = true;
  target.focus({ preventScroll: true });
}

function markTarget(at) {
  TOUR.forEach(([id], step) => byId(id).classList.toggle("toured", step === at));
}

function stepTour(at) {
  const [id, words] = TOUR[at], last = at === TOUR.length - 1;
  const done = () => endTour(byId("ship-box").querySelector("summary"));
  const next = tourButton(last ? "Done" : "Next", last ? done : () => stepTour(at + 1));
  const row = element("div", "row");
  row.append(next, ...(last ? [] : [tourButton("Stop", () => endTour(ruler))]));
  tour.replaceChildren(element("p", "", `${at + 1} of ${TOUR.length}. ${words}`), row);
  tour.hidden = false;
  root.style.setProperty("--tour", `${tour.offsetHeight + 16}px`); // room below the page: the card can hide nothing
  markTarget(at);
  byId(id).scrollIntoView({ block: at ? "start" : "nearest", behavior: CALM.matches ? "auto" : "smooth" });
  next.focus({ preventScroll: true });
}

function layTour() {
  byId("tour-start").addEventListener("click", () => stepTour(0));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !tour.hidden) endTour(ruler);
  });
}
