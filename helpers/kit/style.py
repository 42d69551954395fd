"""One look for the drift page and for every widget: the tokens (colours by theme, sizes) stand here alone."""

from pathlib import Path

from markupsafe import Markup

from helpers.kit import palette

PARTS = Path(__file__).parents[1] / "page"
COLOURS = {  # name: (on a light ground, on a dark one)
    "paper": ("#f4f5f7", "#0e1116"),
    "card": ("#ffffff", "#171b22"),
    "ink": ("#15181c", "#eceff3"),
    "soft": ("#555c66", "#a6adb8"),
    "line": ("#d5d9df", "#343b46"),
    "focus": ("#005a9c", "#7cc4ff"),
    "right": ("#006d4e", "#2fc79b"),
    "wrong": ("#b34700", "#ff8a3d"),
    "policy": (palette.POLICY, "#4ba3e3"),
    "reference": (palette.REFERENCE, "#9aa0a8"),
    "proxy": (palette.REWARD, "#2fc79b"),
    "gold": (palette.GOLD, palette.GOLD),
    "best": (palette.KL, "#ff8a3d"),
    "more": (palette.POLICY, palette.POLICY),  # grounds of words: letters stay readable on them
    "less": ("#e67800", "#c96a00"),
}
SIZES = {
    "font": 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
    "serif": 'Georgia, "Iowan Old Style", "DejaVu Serif", serif',  # a policy's text
    "small": "max(12px, 0.82rem)",
    "gap": "0.9rem",
    "round": "12px",
}


def tokens(selector: str) -> str:
    """The tokens as CSS variables of this selector. The theme is chosen by `color-scheme` alone.

    A browser that knows no light-dark() shows the light colours.
    """
    light = "".join(f"--{name}:{colour};" for name, (colour, _) in COLOURS.items())
    both = "".join(f"--{name}:light-dark({a},{b});" for name, (a, b) in COLOURS.items())
    sizes = "".join(f"--{name}:{value};" for name, value in SIZES.items())
    known = (
        f"@supports (color:light-dark(#000,#fff)){{{selector}{{color-scheme:light dark;{both}}}}}"
    )
    return f"{selector}{{{light}{sizes}}}\n{known}"


def see_through(name: str, percent: int) -> str:
    """A colour of which the ground lets `percent` be seen, for a light ground and a dark one.

    In the words of CSS that JupyterLab keeps in an output it does not trust.
    """
    red, green, blue = bytes.fromhex(COLOURS[name][0][1:])
    return f"rgba({red},{green},{blue},{percent / 100:.2f})"


def part(name: str) -> str:
    """A file of the page."""
    return (PARTS / name).read_text("utf-8")


def widget_style() -> Markup:
    """The style sheet of what stands in a notebook's output beside the page: tokens, then its rules."""
    sheet = f"{tokens('.course')}\n{part('widgets.css')}"
    return Markup("<style>{}</style>").format(Markup(sheet))
