"""Pictures of lessons: a few shapes as SVG text, which every browser shows.

picture = Picture(400, 100)
picture.box(0, 0, 40, 10, "#1f78b4")
print(picture.save("ladder"))
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path


class Picture:
    """Boxes and words on a white sheet of `width` x `height` pixels; x goes right, y goes down."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, fill: str, edge: str = "none") -> None:
        """A filled box."""
        size = f'width="{width:.2f}" height="{height:.2f}"'
        self.parts.append(f'<rect x="{x:.2f}" y="{y:.2f}" {size} fill="{fill}" stroke="{edge}"/>')

    def words(self, x: float, y: float, text: str, size: int = 12, anchor: str = "start") -> None:
        """A line of text whose baseline is at y."""
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
        self.parts.append(f"<text {place}>{escape(text)}</text>")

    def upwards(self, x: float, y: float, text: str, size: int = 12) -> None:
        """A line of text that begins at a place and runs upwards."""
        turn = f'transform="rotate(-90 {x:.1f} {y:.1f})"'
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" {turn}>{escape(text)}</text>')

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 2.0) -> None:
        """A line from point to point."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def svg(self) -> str:
        """The picture as a text."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}"'
        sheet = f'<rect width="{self.width}" height="{self.height}" fill="white"/>'
        return "\n".join([f'{head} font-family="sans-serif">', sheet, *self.parts, "</svg>", ""])

    def save(self, name: str) -> Path:
        """Write `name`.svg; returns its path."""
        return save(name, self.svg())


def save(name: str, svg: str) -> Path:
    """Write a picture to `name`.svg in the folder MINITVM_PICTURES, else in a new temporary one; returns its path."""
    wanted = os.environ.get("MINITVM_PICTURES")
    folder = Path(wanted) if wanted else Path(tempfile.mkdtemp(prefix="minitvm-"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.svg"
    path.write_text(svg, encoding="utf-8")
    return path
