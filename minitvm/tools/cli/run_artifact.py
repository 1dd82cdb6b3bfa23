"""`minitvm run net.mtvm`: run a module that `minitvm export` compiled."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import InputError, nearest
from ...executable import Executable, Input, ScalarSpec, TensorSpec
from ...runtime.random_arrays import bounds_of, random_array
from . import options as opt
from .progress import progress
from .run import output_path, save
from .timed import timed


def run(options: argparse.Namespace) -> int:
    """Load and run it, and print its outputs' types."""
    from ...runtime import load

    if options.check:
        raise InputError("--check compares with the model's graph, which an artifact does not have; check the model")
    if options.checked:
        raise InputError("--checked is decided when a model is compiled; an artifact is compiled already")
    if options.target != "cpu":
        raise InputError(f"--target {options.target}: an artifact is compiled already")
    if options.engine:
        raise InputError("--engine goes with a model: an artifact is compiled already")
    destination = output_path(options.output, "--output") if options.output else None
    arrays = opt.load_arrays(options.input) if options.input else None
    if arrays is not None and options.shape:
        raise InputError("--shape: the arrays of --input have their shapes")
    start = time.perf_counter()
    with progress() as report:
        compiling = lambda done, total, name: report("compiling for this machine", done, total)  # noqa: E731
        module = load(options.model, options.threads, trust=options.trust, key=options.key, progress=compiling)
    loaded = time.perf_counter() - start
    inputs = random_inputs(module.executable, opt.sizes(opt.parse_shapes(options.shape))) if arrays is None else arrays
    reset = getattr(module, "reset", None)  # a tir function has no states
    outputs, times = timed(lambda: outputs_of(module, inputs), reset)
    print(f"loaded in {loaded:.2f} s, {times} on {module.threads} threads")
    print(opt.describe(outputs))
    if destination is not None:
        save(destination, outputs)
    return 0


def random_inputs(executable: Executable, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Seeded inputs that the program accepts; `shapes` are the shapes of inputs with open dimensions."""
    from ...runtime.shapes import bind_dims

    names = [spec.name for spec in executable.inputs]
    for name in shapes:
        if name not in names:
            raise InputError(f"--shape: there is no input {name}; {nearest(name, names)}")
    tensors = []
    for spec in executable.inputs:
        if isinstance(spec, TensorSpec):
            shape = shapes.get(spec.name, spec.shape)
            if not all(isinstance(size, int) for size in shape):
                raise opt.open_dimensions(spec.name, spec.shape)
            tensors.append((spec, tuple(int(size) for size in shape)))  # type: ignore[arg-type]
    sizes = bind_dims(executable.name, tensors) if executable.bounds else {}
    fixed = {spec.name: shape for spec, shape in tensors}
    generator = np.random.default_rng(0)
    return {
        spec.name: random_array(generator, fixed.get(spec.name, ()), spec.dtype, bounds_of(executable, number, sizes))
        for number, spec in enumerate(executable.inputs)
    }


def outputs_of(module: Any, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The module's outputs for the inputs, by name. A tir function writes into zeros, or into an input of that name."""
    from ...runtime import GraphModule
    from ...runtime.arguments import named
    from ...runtime.shapes import bind_dims, shape_of

    if isinstance(module, GraphModule):
        results = module(**inputs)
        return dict(zip(module.output_names, results if isinstance(results, tuple) else (results,), strict=True))
    x = module.executable
    destinations = {spec.name: np.array(inputs[spec.name]) for spec in x.outputs if spec.name in inputs}
    read = named(x.name, x.inputs, {name: a for name, a in inputs.items() if name not in destinations})
    values = dict(zip((spec.name for spec in x.inputs), read, strict=True))
    tensors = [(spec, values[spec.name].shape) for spec in x.inputs if isinstance(spec, TensorSpec)]
    env = bind_dims(x.name, tensors, [(s, values[s.name].item()) for s in x.inputs if isinstance(s, ScalarSpec)])
    for spec in x.outputs:
        if spec.name not in destinations:
            destinations[spec.name] = np.zeros(shape_of(spec, env), spec.dtype.numpy)
    places = [(x.inputs if isinstance(place, Input) else x.outputs)[place.index].name for place in x.calling_order]
    module(*(destinations[name] if name in destinations else values[name] for name in places))
    return destinations
