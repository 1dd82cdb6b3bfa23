"""`minitvm demo`: read a line of drawn text with a compiled network, then show one of its loops and the loop's kernel.

With `--faces` it finds the faces in a picture.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, missing_extra
from ...graph import Graph
from . import options as opt
from .demo_faces import faces
from .difference import TOLERANCE, relative_difference
from .level_texts import text as level_text
from .level_texts import write
from .progress import Steps, progress
from .run import output_path

HEIGHT = 48  # pixels; the height that the recogniser was trained on
WIDTH_STEP = 320  # widths are rounded up to this, so that texts of similar length share compiled kernels
WIDEST = 10 * WIDTH_STEP  # pixels: some 200 letters
MARGIN = 12
LETTERS = 100  # of a line of the programs that it shows; a longer one is not shown, as none is cut


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser("demo", help="read drawn text with a compiled network", description=__doc__)
    parser.add_argument("--text", default="Hello, tensor compiler", help="the words to draw, on one line")
    parser.add_argument("--font", metavar="TTF", help="a font file, for scripts that the built-in font does not have")
    parser.add_argument(
        "--faces", nargs="?", const="", metavar="PICTURE",
        help="find the faces in a picture instead (default: that of an astronaut)",
    )  # fmt: skip
    opt.add_threads(parser)
    parser.add_argument("--picture", metavar="PNG", help="also save the drawn picture, or the faces found, there")
    parser.set_defaults(function=demo)


def demo(options: argparse.Namespace) -> int:
    from ... import build
    from ...build import to_graph
    from ...reference import graph as interpreter
    from ...store import directory
    from ..models import rapidocr

    if options.faces is not None:
        clock = _Clock()
        status = faces(options, clock)
        clock.show()
        return status
    destination = output_path(options.picture, "--picture") if options.picture else None
    path, alphabet = rapidocr.recogniser(), rapidocr.alphabet()
    picture = draw(options.text, options.font)
    if destination is not None:
        picture.save(destination, format="PNG")
    image = normalize(picture)
    print(f"drawn      {options.text!r}, {picture.width} x {picture.height} pixels")
    clock = _Clock()
    graph = clock("import the ONNX model", lambda: to_graph(path, shapes={"x": image.shape}))
    with progress() as report:
        module = clock("compile it", lambda: build(graph, threads=options.threads, progress=report))
    probabilities = clock("run it, first time", lambda: module(image))
    clock("run it again", lambda: module(image))
    words = decode(probabilities[0], alphabet)
    print(f"read       {words!r}{_comment(options.text, words)}")
    with progress() as report:
        steps = Steps(report, "interpreting the graph", len(graph.nodes))
        (expected,) = clock("run its interpreter", lambda: interpreter.run(graph, {"x": image}, listeners=[steps]))
    apart, interpreted = relative_difference(probabilities, expected), decode(expected[0], alphabet)
    agree = apart <= TOLERANCE and interpreted == words
    verdict = "reads the same words" if interpreted == words else f"DISAGREES, it reads {interpreted!r}"
    print(f"checked    the interpreter in NumPy {verdict}; largest difference {apart:.1e} of the largest value")
    clock.show()
    print("  The kernels are on the disk now, so the next build of this model takes a second or two.")
    show_operator(graph)
    print(
        "\ntry next\n"
        '  make demo TEXT="42 + 7 = 49"       your own words\n'
        "  minitvm lesson 00                  the first lesson: three loops, and what they cost\n"
        "  minitvm book                       one build, function by function\n"
        f"  the generated kernels are in {directory()}"
    )
    return 0 if agree else 1


def _comment(drawn: str, read: str) -> str:
    if read == drawn:
        return ", the words that were drawn"
    if "".join(read.split()) == "".join(drawn.split()):
        return ", but for the spaces what was drawn"
    return ", which is not what was drawn: the network misread it"


def draw(words: str, font_file: str | None = None) -> Any:
    """A picture of the words, black on white, HEIGHT pixels high and a multiple of WIDTH_STEP wide.

    Raises `InputError` for words that are empty, too long or not on one line, and for letters that the font lacks.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise missing_extra("Pillow", "demo") from None
    if not words.strip():
        raise InputError("--text: wanted some words, found none")
    if not words.isprintable():
        raise InputError("--text: wanted one line of printable letters")
    try:
        font = ImageFont.truetype(font_file, 30) if font_file else ImageFont.load_default(size=30)
    except OSError:
        raise InputError(
            f"--font: {font_file} is {'not a font' if Path(str(font_file)).exists() else 'missing'}"
        ) from None
    lacking = sorted({letter for letter in words if not letter.isspace() and _lacks(font, letter)})
    if lacking:
        raise InputError(f"--text: the font has no {' '.join(lacking[:8])}; give one that does with --font FILE.ttf")
    left, _, right, _ = font.getbbox(words)
    width = -(-(int(right - left) + 2 * MARGIN) // WIDTH_STEP) * WIDTH_STEP
    if width > WIDEST:
        raise InputError(f"--text: {width} pixels wide, at most {WIDEST} are read: some 200 letters")
    picture = Image.new("RGB", (width, HEIGHT), "white")
    ImageDraw.Draw(picture).text((MARGIN - left, HEIGHT // 2), words, fill="black", font=font, anchor="lm")
    return picture


def _lacks(font: Any, letter: str) -> bool:
    # A font draws the same box for every letter that it lacks; no font has a letter for this code point.
    return bytes(font.getmask(letter)) == bytes(font.getmask("\U0010ffff"))


def normalize(picture: Any) -> np.ndarray:
    """The picture as the network's input: float32 [1, 3, HEIGHT, width] from -1 to 1."""
    pixels = np.asarray(picture, np.float32) / np.float32(127.5) - np.float32(1.0)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def decode(probabilities: np.ndarray, alphabet: list[str]) -> str:
    """Greedy CTC: the best symbol of each step, repetitions merged, blanks (class 0) left out."""
    best = probabilities.argmax(-1)
    changed = np.concatenate([[True], best[1:] != best[:-1]])
    return "".join(alphabet[k] for k in best[changed] if k).strip()


def show_operator(graph: Graph) -> None:
    """Print one of a network's operators on single elements: its loops, and the kernel that computes in vectors.

    It is the one with the shortest programs. Where no operator has lines that fit, nothing is printed.
    """
    from ...build import optimize_graph, stage
    from ...lowering import to_units
    from ...target import Target

    target = Target.of("cpu")
    pairs = []
    for unit in to_units(optimize_graph(graph, target)):
        loops = loops_of(level_text(stage(unit, target, "tir")))
        if loops and max(map(len, loops)) <= LETTERS:
            kernel = kernel_of(level_text(stage(unit, target, "source")))
            if "load(" in "".join(kernel) and max(map(len, kernel)) <= LETTERS:
                pairs.append((sum(map(len, kernel)), unit.name, loops, kernel))
    if not pairs:
        return
    _, name, loops, kernel = min(pairs)
    print(f"\none of its operators, {name}, as loops over single numbers")
    write("\n".join(f"    {line}" for line in loops))
    print("\nand as the kernel that runs: `load` and `store` move a vector of neighbours at once")
    write("\n".join(f"    {line}" for line in kernel))


def loops_of(program: str) -> list[str]:
    """The loops of a function that is one block without a reduction, and its statement; none of another function.

    A block's iterators have the values of its loops, so the statement is printed with the names of these.
    """
    lines = program.split("\n")
    blocks = [k for k, line in enumerate(lines) if "with T.block(" in line]
    if len(blocks) != 1 or not re.search(r'T\.axis\.remap\("S+"', program):
        return []
    loops = [line.strip() for line in lines[: blocks[0]] if line.strip().startswith("for ")]
    inside = [line.strip() for line in lines[blocks[0] + 1 :] if line.strip() and "T.axis." not in line]
    statements = [re.sub(r"\bv_(\w+)", r"\1", line) for line in inside if not line.startswith(("T.reads", "T.writes"))]
    return [*("    " * k + line for k, line in enumerate([*loops, *statements]))] if len(statements) == 1 else []


def kernel_of(source: str) -> list[str]:
    """The loops of the source of a kernel; none if it is several kernels or something else than loops."""
    lines = source.rstrip().split("\n")
    starts = [k for k, line in enumerate(lines) if line.startswith("    for ")]
    return [line[4:] for line in lines[starts[0] :]] if len(starts) == 1 and source.count("\ndef ") == 1 else []


class _Clock:
    """Runs steps and records their times."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float]] = []

    def __call__(self, step: str, run: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = run()
        self.rows.append((step, time.perf_counter() - start))
        return result

    def show(self) -> None:
        """Print what each step took."""
        print("\nwhat each step took")
        width = max(28, *(len(step) for step, _ in self.rows))
        for step, seconds in self.rows:
            print(f"  {step:<{width}} {seconds * 1e3:10.1f} ms")


__all__ = ["decode", "demo", "draw", "normalize", "register"]
