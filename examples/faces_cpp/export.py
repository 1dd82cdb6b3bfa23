"""Write the face detector as C: `python export.py FOLDER [ROWS COLUMNS] [--target "cpu -arch=cortex-a76"]`.

The network reads pictures of ROWS x COLUMNS pixels, multiples of 32. The program resizes each photograph to this size.
"""

from __future__ import annotations

import argparse

import numpy as np

import minitvm
from minitvm.build import to_graph
from minitvm.export import c
from minitvm.tools.models.centerface import network, pipeline


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("rows", type=int, nargs="?", default=320)
    parser.add_argument("columns", type=int, nargs="?", default=320)
    parser.add_argument("--target", default="cpu", help="a CPU, such as 'cpu -arch=cortex-a76' (default: this one)")
    options = parser.parse_args()
    graph = pipeline(to_graph(network(options.rows, options.columns)))
    gradient = np.indices((48, 64, 3)).sum(axis=0, dtype="uint8")  # for the test that the folder brings along
    c.export(graph, options.folder, name="faces", target=options.target, weights="incbin", inputs={"picture": gradient})
    print(f"wrote {options.folder}, with minitvm {minitvm.__version__}")


if __name__ == "__main__":
    main()
