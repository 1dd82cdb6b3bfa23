"""`minitvm demo --faces`: find the faces in a picture with a compiled detector, from pixels to the boxes that remain.

The picture of Eileen Collins in scikit-image is NASA's, in the public domain.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, missing_extra
from .difference import TOLERANCE, relative_difference
from .progress import Steps, progress
from .run import output_path

LARGEST = 2048  # pixels of a side
_PICTURE = ("scikit-image", "0.26.0", "skimage/data/astronaut.png")


def faces(options: argparse.Namespace, clock: Any) -> int:
    """Find the faces, compare with the interpreter, and save the picture with what was found if asked for."""
    from ... import build
    from ...build import to_graph
    from ...reference import graph as interpreter
    from ..models.centerface import STRIDE, centerface, network
    from ..models.located import located

    destination = output_path(options.picture, "--picture") if options.picture else None
    source = Path(options.faces) if options.faces else located(*_PICTURE)
    picture = opened(source)
    pixels = padded(np.asarray(picture, np.float32), STRIDE)
    print(f"picture    {source.name}, {picture.width} x {picture.height} pixels")
    graph = clock("import the network, with what finds faces", lambda: centerface(to_graph(network(*pixels.shape[2:]))))
    with progress() as report:
        module = clock("compile it", lambda: build(graph, threads=options.threads, progress=report))
    found = clock("run it, first time", lambda: module(pixels))
    clock("run it again", lambda: module(pixels))
    boxes, scores, landmarks = found
    print(f"found      {len(boxes)} face{'' if len(boxes) == 1 else 's'}")
    for box, score in zip(boxes, scores, strict=True):
        left, top, right, bottom = (round(float(v)) for v in box)
        print(f"           x {left} to {right}, y {top} to {bottom}: {score:.0%} sure")
    with progress() as report:
        steps = Steps(report, "interpreting the graph", len(graph.nodes))
        expected = clock("run the graph interpreter", lambda: interpreter.run(graph, [pixels], listeners=[steps]))
    same = all(a.shape == b.shape for a, b in zip(found, expected, strict=True))
    apart = max(relative_difference(a, b) for a, b in zip(found, expected, strict=True) if a.size) if same else np.inf
    verdict = f"the same faces, difference {apart:.1e} of the largest value" if same else "WRONG, it finds others"
    print(f"checked    the graph interpreter: {verdict}")
    if destination is not None:
        drawn(picture, boxes, landmarks).save(destination, format="PNG")
        print(f"wrote      {destination}")
    return 0 if same and apart <= TOLERANCE else 1


def opened(source: Path) -> Any:
    """The picture of a file, RGB. Raises `InputError` for what is no picture, or too large."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise missing_extra("Pillow", "demo") from None
    try:
        picture = Image.open(source).convert("RGB")
    except FileNotFoundError:
        raise InputError(f"--faces: {source} is missing") from None
    except (UnidentifiedImageError, OSError):
        raise InputError(f"--faces: {source} is not a picture") from None
    if max(picture.size) > LARGEST:
        raise InputError(f"--faces: {picture.width} x {picture.height} pixels; at most {LARGEST} a side are looked at")
    return picture


def padded(pixels: np.ndarray, multiple: int) -> np.ndarray:
    """Pixels [height, width, 3] as [1, 3, height, width], black behind the ends up to sides that are multiples."""
    height, width, _ = pixels.shape
    more = [(0, -height % multiple), (0, -width % multiple), (0, 0)]
    return np.ascontiguousarray(np.pad(pixels, more).transpose(2, 0, 1)[None])


def drawn(picture: Any, boxes: np.ndarray, landmarks: np.ndarray) -> Any:
    """A copy of the picture with a frame around each face, and a dot on each landmark."""
    from PIL import ImageDraw

    copy = picture.copy()
    pen = ImageDraw.Draw(copy)
    for box, points in zip(boxes.tolist(), landmarks.tolist(), strict=True):
        pen.rectangle(box, outline=(0, 255, 0), width=3)
        for x, y in points:
            pen.ellipse((x - 3, y - 3, x + 3, y + 3), fill=(255, 0, 0))
    return copy
