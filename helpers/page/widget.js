// The drift page in a notebook's live output: a frame that holds the page, and a wire from it to Python (anywidget).
const OFFER = "drift-page"; // what the page says when it is there (python.js)

/** The theme of the notebook around; nothing where that has none to tell. */
function notebookTheme() {
  const light = document.body.dataset.jpThemeLight;
  return light && { theme: light === "true" ? "light" : "dark" };
}

function makeFrame(model) {
  const frame = document.createElement("iframe");
  frame.title = "Move β: drift explorer";
  frame.sandbox = "allow-scripts allow-downloads";
  frame.style.cssText = `width:100%;height:${model.get("height")}px;border:0;position:absolute;visibility:hidden`;
  frame.srcdoc = model.get("html");
  return frame;
}

/** The page of plain HTML in the same output, whose place the live one takes. */
function plainFrame(model) {
  return document.getElementById(model.get("plain")) ?? document.createElement("i");
}

function render({ model, el }) {
  const frame = makeFrame(model);
  let port = null, setting = false;

  const takePlace = () => {
    frame.style.position = "static";
    frame.style.visibility = "visible";
    plainFrame(model).style.display = "none";
  };
  const tellTheme = () => {
    const theme = notebookTheme();
    if (theme) frame.contentWindow?.postMessage(theme, "*");
  };
  const tellRuns = () => port?.postMessage({ joined: model.get("joined") });
  const tellView = () => {
    if (!setting && Object.keys(model.get("view")).length) port?.postMessage({ view: model.get("view") });
  };
  const tellModel = (message) => message.model && port?.postMessage(message);
  const hear = ({ data }) => {
    if (data.ask) return model.send(data);
    setting = true; // what the hand has just moved need not be told back
    model.set("view", data);
    setting = false;
    model.save_changes();
  };
  const plug = (event) => {
    if (event.source !== frame.contentWindow || event.data !== OFFER) return;
    [port] = event.ports;
    port.onmessage = hear;
    tellTheme();
    port.postMessage({ models: true });
    if (model.get("joined").runs.length) tellRuns();
    tellView();
    takePlace();
  };

  const watch = new MutationObserver(tellTheme);
  watch.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  window.addEventListener("message", plug);
  model.on("change:joined", tellRuns);
  model.on("change:view", tellView);
  model.on("msg:custom", tellModel);
  el.append(frame);
  return () => {
    watch.disconnect();
    window.removeEventListener("message", plug);
    model.off("change:joined", tellRuns);
    model.off("change:view", tellView);
    model.off("msg:custom", tellModel);
    plainFrame(model).style.display = "";
  };
}

export default { render };
