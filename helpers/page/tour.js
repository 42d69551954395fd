// A first look in four steps, in a card at the foot of the window. The tour moves β itself; what it speaks of stands above it.
const tour = byId("tour"), root = document.documentElement;

/** Each step: [what is ringed, where β goes (null: nowhere), words]. */
function tourSteps() {
  const { best } = yardsticks[view.seed], largest = TRAINED - 1;
  const keys = matchMedia("(hover: hover)").matches ? ", or press ← and →" : "";
  return [
    ["numbers", 0, `A trained model can game its reward. With ${nameOf(0)}, proxy, the reward, is high; gold, the real quality, is lost.`],
    ["numbers", best, `With ${nameOf(best)} it pays for each step away from the model it began as. Proxy is lower; gold is among the highest.`],
    ["plane-card", largest, `With ${nameOf(largest)} it hardly moves away (to the right), and hardly gets better (upwards).`],
    ["train-box", null, `Your turn: drag β${keys}. Or train a run of your own in this card; or choose between texts, below.`],
  ];
}

function ring(target) {
  document.querySelector(".toured")?.classList.remove("toured");
  target?.classList.add("toured");
}

/** Put the tour away; β has the focus. */
function endTour() {
  ring(null);
  tour.hidden = true;
  ruler.focus();
}

function stepTour(at) {
  const steps = tourSteps(), [id, beta, words] = steps[at], more = at < steps.length - 1;
  const next = makeButton(more ? "Next" : "Done", more ? () => stepTour(at + 1) : endTour), row = element("div", "row");
  stop();
  if (beta !== null) {
    takeBeta(beta);
    show({ iteration: last });
  }
  row.append(next, ...(more ? [makeButton("Stop", endTour)] : []));
  tour.replaceChildren(element("p", "", `${at + 1} of ${steps.length}. ${words}`), row);
  tour.hidden = false;
  root.style.setProperty("--tour", `${tour.offsetHeight + 16}px`); // room below the page: the card can hide nothing
  ring(byId(id));
  byId(id).scrollIntoView({ block: id === "numbers" ? "nearest" : "end", behavior: CALM.matches ? "auto" : "smooth" });
  next.focus({ preventScroll: true });
}

function layTour() {
  byId("tour-start").hidden = !DATA.policies.length; // its end is the training card
  byId("tour-start").addEventListener("click", () => stepTour(0));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !tour.hidden) endTour();
  });
}
