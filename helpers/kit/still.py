"""Still pictures for saved notebooks: few colours, see-through corners, as sharp as fits."""

import io

import numpy as np
from PIL import Image, ImageDraw  # comes with matplotlib

SHARPNESS = (2, 1.5, 1)  # pixels of a still picture for each pixel of the page: the most that fit
MOST = 15_000  # bytes of a still picture: a notebook has 500 kB
CORNER = 10  # pixels of the page: radius of the card's corners
EXACT, COLOURS = 16, 64  # of a still picture: colours that stay as they are, and all colours
GREY = 100.0  # how far any grey is from any colour, in steps of 255


def few_colours(picture: Image.Image) -> Image.Image:
    """A picture in at most 64 of its own colours, a palette of them beside it.

    The 16 that fill most of it stay exact, so areas and grids look alike in all figures; the others cover
    what is left, the farthest first. Each pixel gets the nearest of them, a grey one always a grey.
    """
    red, green, blue = np.moveaxis(np.asarray(picture).astype(np.int32), 2, 0)
    codes = (red << 16 | green << 8 | blue).ravel()
    codes, index, counts = np.unique(codes, return_inverse=True, return_counts=True)
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], 1)
    grey = GREY * (colours.min(1) == colours.max(1))
    points = np.column_stack([colours, grey])
    chosen = np.argsort(-counts, kind="stable")[:EXACT].tolist()
    far, nearest = np.full(len(points), np.inf), np.zeros(len(points), np.uint8)
    for place in range(COLOURS):
        if place == len(chosen):  # the exact ones are placed: next, what they cover worst
            chosen.append(int(far.argmax()))
        away = np.square(points - points[chosen[place]]).sum(1)
        nearest[away < far] = place
        far = np.minimum(far, away)
        if not far.any():
            break
    small = Image.fromarray(nearest[index].reshape(red.shape))
    palette = np.zeros((COLOURS + 1, 3), np.uint8)  # one more, for `rounded`
    palette[: len(chosen)] = colours[chosen]
    small.putpalette(palette.tobytes())
    return small


def rounded(picture: Image.Image, radius: int) -> Image.Image:
    """A picture of few colours as a card, which stands on a dark page too: its corners are see-through."""
    corners = Image.new("1", picture.size, 1)
    ImageDraw.Draw(corners).rounded_rectangle((0, 0, *(x - 1 for x in picture.size)), radius, 0)
    picture.paste(COLOURS, mask=corners)
    picture.info["transparency"] = COLOURS  # the place in its palette
    return picture


def packed(picture: Image.Image, **how) -> bytes:
    """A picture as the bytes of a PNG file, small unless told otherwise."""
    file = io.BytesIO()
    picture.save(file, format="png", **({"optimize": True} | how))
    return file.getvalue()
