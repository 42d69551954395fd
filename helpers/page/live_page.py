"""The wire between the drift page, in a notebook's output, and Python: an anywidget of three messages."""

import anywidget
from traitlets import Dict, Int, Unicode

from helpers.kit.style import part
from helpers.page.policies import model_facts


class LivePage(anywidget.AnyWidget):
    """The page in a frame. Python and page both write `view`; only Python writes `joined`. The page may
    `ask` for a model by its name, to train it.

    `view`: places of β's stop, seed, prompt, and the iteration; empty while nobody has moved anything.
    """

    _esm = part("widget.js")
    html = Unicode().tag(sync=True)
    plain = Unicode().tag(sync=True)  # id of the frame in plain HTML whose place this one takes
    height = Int().tag(sync=True)  # pixels
    view = Dict().tag(sync=True)
    joined = Dict({"words": [], "runs": []}).tag(sync=True)

    def __init__(self, **traits):
        super().__init__(**traits)
        self.on_msg(self._answer)

    def _answer(self, widget: anywidget.AnyWidget, asked: dict, buffers: list) -> None:
        """Give the model that the page asks for; nothing for a name that is none."""
        make = model_facts().get(asked.get("ask"))
        if make is not None:
            self.send({"name": asked["ask"], "model": make()})
