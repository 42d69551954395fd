// Runs in each widget's output, as the `onerror` of an image; `this` is that image.
// JupyterLab's one-letter commands ("b" inserts a cell) stay away from what has the keyboard in a widget:
// it asks the focused element itself first, so whatever takes the focus is marked.
// ipywidgets gives the handle of a slider no name, and a picture no words: both are set from what is beside them.
setTimeout(() => {
  const area = this.closest('.jp-OutputArea-output');
  if (!area) return;
  const keep = node => node.setAttribute('data-lm-suppress-shortcuts', 'true');
  const nameAll = () => {
    for (const handle of area.querySelectorAll('.noUi-handle')) {
      const words = handle.closest('.widget-slider')?.querySelector('.widget-label')?.textContent.trim();
      if (words) handle.setAttribute('aria-label', words);
    }
    for (const told of area.querySelectorAll('[data-alt]')) {
      const picture = told.closest('.widget-vbox')?.querySelector('img.widget-image');
      if (picture) picture.alt = told.dataset.alt;
    }
  };
  keep(area);
  area.addEventListener('focusin', event => keep(event.target));
  nameAll();
  new MutationObserver(nameAll).observe(area, { childList: true, subtree: true }); // what comes later, too
}, 200);
