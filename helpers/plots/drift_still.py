"""The drift explorer as one still picture, for a saved notebook that no kernel runs."""

from collections.abc import Sequence

from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

MARGIN, LINE = 10, 22  # pixels


def still_picture(
    pictures: Sequence[Image.Image], samples: Sequence[Sequence[tuple]], title: str
) -> Image.Image:
    """Two pictures above, one below with the samples beside it; 128 colours, so that it is small.

    `samples` holds one list of (word, background) pairs a response.
    """
    first, second, third = pictures
    width = first.width + second.width
    page = Image.new("RGB", (width, first.height + third.height), "white")
    page.paste(first, (0, 0))
    page.paste(second, (first.width, 0))
    page.paste(third, (0, first.height))
    draw_samples(ImageDraw.Draw(page), samples, title, first.width, first.height, width)
    return page.quantize(128)


def draw_samples(pen, samples, title: str, left: int, top: int, right: int) -> None:
    """Words on their backgrounds, wrapped at the right edge."""
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 12)
    y = top + MARGIN
    pen.text((left, y), f"{title}: samples, by log π − log π_ref", font=font, fill="black")
    for words in samples:
        x, y = left, y + LINE + MARGIN
        for word, background in words:
            wide = pen.textlength(word, font=font)
            if x + wide > right - MARGIN:
                x, y = left, y + LINE
            pen.rectangle((x - 1, y - 1, x + wide + 2, y + 16), fill=background)
            pen.text((x, y), word, font=font, fill="black")
            x += wide + 7
    y += LINE + MARGIN
    words = "blue: the policy says it more often than the reference; orange: less often"
    pen.text((left, y), words, font=font, fill="#444444")
