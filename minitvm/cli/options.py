"""Arguments that several commands share, and how they become models, shapes and arrays."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, ModelError


def add_model(parser: argparse.ArgumentParser) -> None:
    """MODEL, --shape and --target."""
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX file, or the name of a light network")
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1,3,224,224",
        help="the shape of an input whose dimensions the model leaves open; may be repeated",
    )  # fmt: skip
    parser.add_argument("--target", default="cpu", help="what to compile for (see minitvm info); default: cpu")


def model_path(text: str) -> Path:
    """The file that a MODEL argument names; a bare `light_*.onnx` is looked up inside the onnx package."""
    path = Path(text)
    if path.is_file():
        return path
    if path.is_dir():
        raise ModelError(f"{text} is a folder, wanted an ONNX file")
    if path.parent == Path(".") and path.name.startswith("light_"):
        from ..testbeds import light

        found = light.path(path.name)
        if found is not None:
            return found
    raise ModelError(f"no such file: {text}")


def parse_shapes(entries: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """["x=1,3,48,320"] as {"x": (1, 3, 48, 320)}."""
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in entries:
        name, equals, sizes = entry.partition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(",")) if sizes else ()
        except ValueError:
            shape = (-1,)
        if not equals or not name or any(size < 0 for size in shape):
            raise InputError(f"--shape {entry}: wanted NAME=SIZE,SIZE,... such as x=1,3,48,320")
        shapes[name] = shape
    return shapes


def load_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; nothing in it is unpickled."""
    try:
        with np.load(path, allow_pickle=False) as data:
            if not hasattr(data, "files"):
                raise InputError(f"{path} holds one nameless array; wanted an .npz with one array an input")
            return {name: data[name] for name in data.files}
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is not an .npz file of plain arrays: {error}") from None


def random_inputs(specs: Sequence[Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded inputs for (name, shape, dtype) specifications: normal floats, small integers."""
    generator = np.random.default_rng(seed)
    return {spec.name: random_array(generator, [int(size) for size in spec.shape], spec.dtype) for spec in specs}


def random_array(generator: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    """One seeded array: standard normal for floats, 0..7 for integers, coin flips for bool."""
    kind = np.dtype(str(dtype))
    if kind.kind == "f":
        return generator.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(0, 8, shape).astype(kind)


def describe(arrays: Mapping[str, np.ndarray]) -> str:
    """One line an array: name, dtype, shape, range."""
    lines = []
    for name, array in arrays.items():
        span = f"min {array.min():.6g}, max {array.max():.6g}, mean {array.mean():.6g}" if array.size else "empty"
        lines.append(f"{name}: {array.dtype}{list(array.shape)}  {span}")
    return "\n".join(lines)
