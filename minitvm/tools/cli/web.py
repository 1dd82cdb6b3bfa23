"""`minitvm web -o FOLDER`: pages that read a line of text, and find faces in a picture, in a browser.

Serve the folder, for example with `python -m http.server -d FOLDER`.
"""

from __future__ import annotations

import argparse

from . import options as opt
from .progress import progress


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser("web", help="write pages that run two networks in a browser", description=__doc__)
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="a new folder")
    parser.set_defaults(function=web)


def web(options: argparse.Namespace) -> int:
    from ..web import write

    with progress() as report:
        sizes = write(options.output, report)
    for page, size in sizes.items():
        print(f"{options.output}/{page}.html: {size / 1e6:.1f} MB to download")
    print(f"serve them: python -m http.server -d {options.output}, then open http://localhost:8000")
    return 0
