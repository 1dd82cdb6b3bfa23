"""`minitvm models`: list the built-in networks. You can use their names wherever a command takes a MODEL."""

from __future__ import annotations

import argparse
import inspect

from .options import Commands


def register(commands: Commands) -> None:
    parser = commands.add_parser("models", help="list the built-in networks", description=__doc__)
    parser.set_defaults(function=models)


def models(options: argparse.Namespace) -> int:
    """Print a line for each network: its name and the source of its architecture."""
    from ..models import ALL, light

    for name, network in ALL.items():
        print(f"{name:<28} {(inspect.getdoc(network) or '').splitlines()[0]}")
    for file_name in light.NETWORKS.values():
        print(f"{file_name:<28} of the onnx package (extra `onnx`), with seeded random weights")
    print("\nfor instance: minitvm show resnet18 --level fused")
    return 0
