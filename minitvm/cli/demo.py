"""`minitvm demo`: read a line of drawn text with a compiled network, then show one operator at all of its levels."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError, missing_extra
from .progress import progress
from .difference import relative_difference
from .text import text as level_text

HEIGHT = 48  # pixels; what the recogniser was trained on
WIDTH_STEP = 320  # widths are rounded up to this, so that texts of like length share compiled kernels
LINES = 14  # shown of each level


def register(commands: Any) -> None:
    parser = commands.add_parser("demo", help="read drawn text with a compiled network", description=__doc__)
    parser.add_argument("--text", default="Hello, tensor compiler", help="the words to draw")
    parser.add_argument("--threads", type=int, metavar="N")
    parser.add_argument("--picture", metavar="PNG", help="also save the drawn picture there")
    parser.set_defaults(function=demo)


def demo(options: argparse.Namespace) -> int:
    from .. import build
    from ..build import to_graph
    from ..testbeds import rapidocr

    path = rapidocr.recogniser()
    picture = draw(options.text)
    if options.picture:
        picture.save(options.picture)
    image = normalize(picture)
    print(f"drawn      {options.text!r}, {picture.width} x {picture.height} pixels")
    clock = _Clock()
    graph = clock("import the ONNX model", lambda: to_graph(path, {"x": image.shape}))
    with progress() as report:
        module = clock("compile it", lambda: build(graph, threads=options.threads, progress=report))
    probabilities = clock("run it, first time", lambda: module(image))
    clock("run it again", lambda: module(image))
    words = decode(probabilities[0], rapidocr.alphabet())
    print(f"read       {words!r}")
    from ..reference import graph as interpreter

    (expected,) = clock("run the graph interpreter", lambda: interpreter.run(graph, {"x": image}))
    apart = relative_difference(probabilities, expected)
    print(f"difference from the graph interpreter: {apart:.1e} of the largest value")
    print("\nwhat each step took")
    for step, seconds in clock.rows:
        print(f"  {step:<28} {seconds * 1e3:10.1f} ms")
    show_operator(graph)
    print(f"\nthe generated kernels lie in {_cache_directory()}")
    return 0 if words == options.text else 1


def draw(words: str) -> Any:
    """A picture of the words, black on white, HEIGHT pixels high and a multiple of WIDTH_STEP wide."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise missing_extra("Pillow", "demo") from None
    if not words.strip():
        raise InputError("--text: wanted some words, found none")
    font = ImageFont.load_default(size=30)
    left, _, right, _ = font.getbbox(words)
    wanted = int(right - left) + 24
    picture = Image.new("RGB", (-(-wanted // WIDTH_STEP) * WIDTH_STEP, HEIGHT), "white")
    ImageDraw.Draw(picture).text((12 - left, HEIGHT // 2), words, fill="black", font=font, anchor="lm")
    return picture


def normalize(picture: Any) -> np.ndarray:
    """The picture as the network takes it: float32 [1, 3, HEIGHT, width] from -1 to 1."""
    pixels = np.asarray(picture, np.float32) / np.float32(127.5) - np.float32(1.0)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def decode(probabilities: np.ndarray, alphabet: list[str]) -> str:
    """Greedy CTC: the best symbol of each step, repetitions merged, blanks (class 0) left out."""
    best = probabilities.argmax(-1)
    changed = np.concatenate([[True], best[1:] != best[:-1]])
    return "".join(alphabet[k] for k in best[changed] if k).strip()


def show_operator(graph: Any) -> None:
    """One fused convolution at every level, the first lines of each."""
    from ..build import LEVELS_OF_OPERATOR, optimize_graph, stage, to_units
    from ..target import Target

    target = Target.of("cpu")
    units = to_units(optimize_graph(graph, target))
    unit = next((u for u in units if "conv2d" in u.name and "_" in u.name), units[0])
    print(f"\nthe operator {unit.name} at all of its levels")
    for level in LEVELS_OF_OPERATOR:
        start = time.perf_counter()
        shown = level_text(stage(unit, target, level)).split("\n")
        seconds = time.perf_counter() - start
        print(f"\n--- {level}  ({seconds * 1e3:.0f} ms)")
        print("\n".join(line[:160] for line in shown[:LINES]))
        if len(shown) > LINES:
            print(f"... {len(shown) - LINES} more lines")


def _cache_directory() -> str:
    from ..runtime.cpu import kernel_cache

    return str(kernel_cache.directory())


class _Clock:
    """Runs steps and remembers how long each took."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float]] = []

    def __call__(self, step: str, run: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = run()
        self.rows.append((step, time.perf_counter() - start))
        return result


__all__ = ["decode", "demo", "draw", "normalize", "register"]
