"""The wire between the drift page, in a notebook's output, and Python: an anywidget of two messages."""

import anywidget
from traitlets import Dict, Int, Unicode

from helpers.kit.style import part


class LivePage(anywidget.AnyWidget):
    """The page in a frame. Python and page both write `view`; only Python writes `joined`.

    `view`: places of β's stop, seed, prompt, and the iteration; empty while nobody has moved anything.
    """

    _esm = part("widget.js")
    html = Unicode().tag(sync=True)
    plain = Unicode().tag(sync=True)  # id of the frame in plain HTML whose place this one takes
    height = Int().tag(sync=True)  # pixels
    view = Dict().tag(sync=True)
    joined = Dict({"words": [], "runs": []}).tag(sync=True)
