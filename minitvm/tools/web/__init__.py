"""Pages that run two trained networks in a browser: one reads a line of text, the other finds faces in a picture.

`write` fills a folder, which any file server can serve:

    text.html, text/      the page of PP-OCRv4's recogniser, and the network (`export.wasm`) with its alphabet
    faces.html, faces/    the page of CenterFace's pipeline, and the network with a picture to try
    index.html            links to both
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

PAGES = ("index.html", "text.html", "faces.html")
SIDE = 512  # pixels of the detector's square picture
_PICTURE = ("scikit-image", "0.26.0", "skimage/data/astronaut.png")  # NASA's, in the public domain


def write(folder: str | PathLike[str], progress: Callable[[str, int, int], None] | None = None) -> dict[str, int]:
    """Compile both networks and write the pages. Returns the bytes that a visitor of each page downloads.

    `progress(stage, done, total)` is called while the networks are compiled. Raises `ModelError` if a package with a
    model is missing; the error says how to install it. Raises `InputError` if the folder has files.
    """
    from ...build import to_graph
    from ...export import new_folder
    from ..models import centerface, rapidocr
    from ..models.located import located

    place = new_folder(folder)
    picture = located(*_PICTURE)
    text = to_graph(rapidocr.recogniser(), shapes={"x": (1, 3, 48, "w")})
    faces = centerface.pipeline(to_graph(centerface.network(SIDE, SIDE)))
    sizes = {name: _network(graph, place / name, progress) for name, graph in (("text", text), ("faces", faces))}
    alphabet = json.dumps(rapidocr.alphabet(), ensure_ascii=False, separators=(",", ":")).encode()
    (place / "text" / "alphabet.json").write_bytes(alphabet)
    shutil.copyfile(picture, place / "faces" / "example.png")
    for page in PAGES:
        shutil.copyfile(Path(__file__).with_name(page), place / page)
    sizes["text"] += len(alphabet)
    return {name: size + (place / f"{name}.html").stat().st_size for name, size in sizes.items()}


def _network(graph: Any, place: Path, progress: Callable[[str, int, int], None] | None) -> int:
    """Export a network and return the bytes of the files that a page loads in an engine with relaxed SIMD."""
    from ...build import lower
    from ...export.wasm import TARGET, export

    executable = lower(graph, target=TARGET, stop_at="executable", progress=progress)
    compiling = (lambda done, total, _: progress("compiling", done, total)) if progress else None
    sizes = export(executable, place, compiling)
    return sum(sizes[name] for name in ("net.wasm", "net.weights.bin", "net.js"))


__all__ = ["write"]
