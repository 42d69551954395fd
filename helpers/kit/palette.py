"""The colours of the course: one for each thing it draws again and again; and letters to be read on them."""

from matplotlib.colors import to_rgba

# Okabe and Ito's palette: told apart by colour-blind readers, and by lightness in grey print
BLUE, GREY, GREEN, ORANGE = "#0072B2", "#7F7F7F", "#009E73", "#D55E00"
PINK, YELLOW, SKY = "#CC79A7", "#E69F00", "#56B4E9"
# what has a colour of its own; everything else is drawn by a colour's name
POLICY, REFERENCE, REWARD, KL = BLUE, GREY, GREEN, ORANGE
VALUE, GOLD, ACCENT = PINK, YELLOW, SKY
QUIET_INK = "#5E5E5E"  # of words that stand back, on white or pale colours


def luminance(colour) -> float:
    """WCAG 2's relative luminance, 0 to 1, of a colour on a white page."""
    *channels, alpha = to_rgba(colour)
    seen = [alpha * channel + 1 - alpha for channel in channels]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in seen]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def ink_on(ground) -> str:
    """Black or white letters, whichever has the higher contrast with this ground: never below 4.5."""
    light = luminance(ground) + 0.05
    return "black" if light / 0.05 > 1.05 / light else "white"
