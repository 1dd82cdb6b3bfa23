"""Arguments that several commands share, and how they become models, shapes and arrays."""

from __future__ import annotations

import argparse
import difflib
import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...errors import InputError, ModelError, UnsupportedOperator, nearest
from ...runtime.random_arrays import random_array
from ...target import Target

if TYPE_CHECKING:
    from ...graph import Graph


# argparse has no public name for what `add_subparsers` returns.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
# What torch.export.save writes, models of TensorFlow Lite, graphs as Relax text, and language models.
PROGRAMS = (".pt2", ".tflite", ".relax.py", ".gguf", "config.json")


def add_model(parser: argparse.ArgumentParser, programs: bool = False, optional: bool = False) -> None:
    """MODEL, --shape and --target. With `programs` it may be a Python file with TVMScript, if `optional` nothing."""
    description = (
        "an ONNX file, a TFLite file, a program of torch.export (.pt2), or the name of a network such as resnet50"
    )
    if programs:
        description += "; or a Python file with TVMScript"
    number = "?" if optional else None
    parser.add_argument("model", metavar="FILE" if programs else "MODEL.onnx", nargs=number, help=description)
    add_shape(parser)
    parser.add_argument("--target", default="cpu", help="the machine to compile for (see minitvm info); default: cpu")


def add_shape(parser: argparse.ArgumentParser) -> None:
    """--shape."""
    parser.add_argument(
        "--shape", action="append", default=[], metavar="NAME=1,3,224,224",
        help="the shape of an input that the model leaves open; a name, as in x=b,3,h,w, keeps a dimension open; "
        "may be repeated",
    )  # fmt: skip


def onnx_model(text: str) -> Any:
    """The model of a MODEL argument: a file's path, or for a bare `light_*.onnx` the network with seeded weights."""
    path = Path(text)
    if path.is_file():
        return path
    if path.is_dir():
        raise ModelError(f"{text} is a folder, wanted an ONNX file")
    if path.parent == Path(".") and path.name.startswith("light_"):
        from ..models import light

        return light.seeded(path.name)
    raise ModelError(f"no such file: {text}{_network_meant(path)}")


def _network_meant(path: Path) -> str:
    """The networks with names similar to a bare name that is not a file."""
    from ..models import ALL, light

    if path.parent != Path("."):
        return ""
    near = difflib.get_close_matches(path.name, [*ALL, *light.NETWORKS.values()], n=2, cutoff=0.75)
    if near:
        return f"; did you mean {' or '.join(near)}? (minitvm models lists the networks)"
    return "" if path.suffix else ", and no network of that name: minitvm models lists them"


def parse_shapes(entries: Sequence[str]) -> dict[str, tuple[int | str, ...]]:
    """["x=1,3,48,320"] as {"x": (1, 3, 48, 320)}; a name stands for an open dimension: "x=b,3,h,w"."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    for entry in entries:
        name, equals, sizes = entry.partition("=")
        parts = sizes.split(",") if sizes else []
        shape = tuple(int(part) if part.isdecimal() else part for part in parts)
        if not equals or not name or not all(isinstance(d, int) or d.isidentifier() for d in shape):
            raise InputError(
                f"--shape {entry}: wanted NAME=SIZE,SIZE,... such as x=1,3,48,320, or x=b,3,h,w with names of open ones"
            )
        if name in shapes:
            raise InputError(f"--shape {entry}: {name} has a shape already")
        shapes[name] = shape
    return shapes


def sizes(shapes: Mapping[str, tuple[int | str, ...]]) -> dict[str, tuple[int, ...]]:
    """Shapes without names, where all sizes are needed."""
    for name, shape in shapes.items():
        named = [d for d in shape if isinstance(d, str)]
        if named:
            raise InputError(
                f"--shape {name}={','.join(map(str, shape))}: wanted sizes, found {', '.join(named)}; dimensions stay "
                "open only in the model of a file"
            )
    return {name: tuple(d for d in shape if isinstance(d, int)) for name, shape in shapes.items()}


def target(text: str) -> Target:
    """The target that --target names; kinds without code generation are refused."""
    from ...build import code_target

    return code_target(text)


def add_threads(parser: argparse.ArgumentParser) -> None:
    """--threads."""
    parser.add_argument(
        "--threads", type=thread_count, metavar="N", help="number of threads; default: the number of cores"
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    """--cache."""
    parser.add_argument(
        "--cache", choices=("float32", "float16"), default="float32",
        help="dtype of the caches of keys and values; float16 halves their memory, but rounds; default: float32",
    )  # fmt: skip


def add_engine(parser: argparse.ArgumentParser) -> None:
    """--engine."""
    parser.add_argument(
        "--engine", action="append", default=[], metavar="NAME",
        help="let this library compute the operators that it supports; may be repeated; auto: every library, where it "
        "is faster",
    )  # fmt: skip


def engines(options: argparse.Namespace) -> str | tuple[str, ...]:
    """The engines that --engine names, as `build` takes them."""
    names: list[str] = options.engine
    if "auto" in names and len(names) > 1:
        raise InputError("--engine auto stands for all engines: leave out the other --engine")
    return "auto" if names == ["auto"] else tuple(names)


def add_key(parser: argparse.ArgumentParser, description: str) -> None:
    """--key."""
    parser.add_argument("--key", metavar="FILE", help=description)


def thread_count(text: str) -> int:
    """A number of threads, for argparse."""
    count = int(text) if text.isascii() and text.isdigit() else 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"wanted a number of at least 1, found {text}")
    return count


def load_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; nothing in it is unpickled."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"--input: no such file: {path}") from None
    except IsADirectoryError:
        raise InputError(f"--input: {path} is a folder, wanted an .npz file") from None
    except OSError as error:
        raise InputError(f"--input: {path} cannot be read: {error.strerror}") from None
    try:
        data = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(data, np.lib.npyio.NpzFile):
            return {name: data[name] for name in data.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
        # NumPy's own messages mention pickle and checksums, which would mislead.
        raise InputError(f"--input: {path} is not an .npz file of plain arrays, or a damaged one") from None
    raise InputError(f"--input: {path} holds one nameless array, wanted an .npz with one named array an input")


def read_graph(text: str, shapes: Sequence[str], arrays: Mapping[str, np.ndarray] | None = None) -> Graph:
    """The graph of a MODEL argument at the shapes of --shape; `arrays` determine dimensions that are still open.

    If an operator does not support an open dimension, the error names the --shape that is missing.
    """
    from ...build import to_graph
    from ...frontends.onnx.loading import load
    from ..models import ALL, get

    if text in ALL and not Path(text).exists():
        return get(text, shapes=sizes(parse_shapes(shapes)))
    if (Path(text) / "config.json").is_file():  # a folder of Hugging Face
        text = str(Path(text) / "config.json")
    if text.endswith(PROGRAMS):
        return to_graph(Path(text), shapes=parse_shapes(shapes))
    model = load(onnx_model(text))
    fixed: dict[str, tuple[int | str, ...]] = parse_shapes(shapes)
    still_open = open_inputs(model, fixed)
    for name, dims in list(still_open.items()):
        if arrays is not None and name in arrays and arrays[name].ndim == len(dims):
            fixed[name] = arrays[name].shape
            del still_open[name]
    try:
        return to_graph(model, shapes=fixed)
    except UnsupportedOperator as error:
        if not still_open:
            raise
        where = str(error).split(":", 1)[0]
        options = " ".join(_shape_option(name, dims) for name, dims in still_open.items())
        raise UnsupportedOperator(
            f"{where} does not take the dimensions that the model leaves open; give {options}"
        ) from error


def open_inputs(model: Any, shapes: Mapping[str, Sequence[int | str]]) -> dict[str, list[int | str]]:
    """The inputs of an ONNX model that have open dimensions and no shape in `shapes`, with their dimensions."""
    from ...frontends.onnx.dtypes import tensor_type

    constants = {tensor.name for tensor in model.graph.initializer}
    open_dims = {}
    for info in model.graph.input:
        if info.name in constants or info.name in shapes:
            continue
        _, dims = tensor_type(info, f"input {info.name}")
        if dims is not None and not all(isinstance(dim, int) for dim in dims):
            open_dims[info.name] = dims
    return open_dims


def _shape_option(name: str, dims: Sequence[Any]) -> str:
    return f"--shape {name}=" + ",".join(str(dim) if isinstance(dim, int) else "SIZE" for dim in dims)


def arguments(graph: Graph) -> list[Any]:
    """The inputs that a caller passes: all but the states, which a module keeps from run to run."""
    states = {old for old, _ in graph.state_pairs()}
    return [value for value in graph.inputs if value not in states]


def fixed_shapes(graph: Graph) -> None:
    """Refuse a graph whose inputs have open dimensions: without arrays nothing determines their sizes."""
    for value in graph.inputs:
        if not all(isinstance(dim, int) for dim in value.shape):
            raise open_dimensions(value.name, value.shape)


def open_dimensions(name: str, shape: Sequence[Any]) -> InputError:
    """The error for an input whose sizes are not determined, with the --shape that is missing."""
    sizes = ",".join(str(dim) for dim in shape)
    return InputError(f"input {name} has open dimensions ({sizes}); give {_shape_option(name, shape)}")


def check_inputs(graph: Graph, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that do not fit the graph's inputs, before anything is compiled."""
    values = {value.name: value for value in arguments(graph)}
    for name in arrays:
        if name not in values:
            raise InputError(f"--input: the model has no input {name}; {nearest(name, list(values))}")
    for name, value in values.items():
        if name not in arrays:
            raise InputError(f"--input: no array for {name}, wanted {value.type}")
        array = arrays[name]
        fits = array.ndim == value.ndim and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(value.shape, array.shape, strict=True)
        )
        if not fits or array.dtype != value.dtype.numpy:
            raise InputError(f"--input: {name} wanted {value.type}, found {array.dtype}{list(array.shape)}")


def natural(text: str) -> int:
    """A number of 0 or more, as an argument of the command line."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"wanted a number of 0 or more, found {text!r}")
    return int(text)


def random_inputs(graph: Graph, values: Sequence[Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded arrays for some inputs of a graph: normal floats, and small integers that the graph accepts."""
    from ...executable import evaluate
    from ...link.bounds import input_bounds

    generator = np.random.default_rng(seed)
    bounds = {
        bound.name: (int(evaluate(bound.low, {})), int(evaluate(bound.high, {}))) for bound in input_bounds(graph)
    }
    return {v.name: random_array(generator, [int(n) for n in v.shape], v.dtype, bounds.get(v.name)) for v in values}


def describe(arrays: Mapping[str, np.ndarray]) -> str:
    """One line per array: name, dtype, shape, range."""
    lines = []
    for name, array in arrays.items():
        span = f"min {array.min():.6g}, max {array.max():.6g}, mean {array.mean():.6g}" if array.size else "empty"
        lines.append(f"{name}: {array.dtype}{list(array.shape)}  {span}")
    return "\n".join(lines)
