"""`minitvm accel explain MODEL` and `accel run MODEL`: a network on the accelerator and its host.

A network of floats is quantised first, with powers of two as scales, on seeded random inputs or those of a file.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import UnsupportedOperator
from . import options as opt

if TYPE_CHECKING:
    from ...graph import Graph
    from ...machines.scratchpad.timeline import Timeline
    from ...target import Target


def quantised(graph: Graph, samples: dict[str, np.ndarray]) -> Graph:
    """The graph in int8; as it is, where it has no product of floats. Prints what was lost."""
    from ...quantize import quantize

    try:
        result = quantize(graph, [samples], dtype="int8")
    except UnsupportedOperator:
        return graph
    worst = min(result.layers, key=lambda layer: layer.noise)
    print(f"quantised on one sample: {len(result.layers)} tensors, the worst is {worst.name} with {worst.noise:.1f} dB")
    for layer in result.outputs:
        print(f"  output {layer.name}: {layer.noise:.1f} dB")
    if result.agreement is not None:
        print(f"  the greatest element of a row is the same in {100 * result.agreement:.1f} % of rows")
    return result.graph


def read(options: argparse.Namespace) -> tuple[Graph, dict[str, np.ndarray]]:
    """The network, quantised, and its inputs."""
    given = opt.load_arrays(options.input) if options.input else None
    graph = opt.read_graph(options.program, [], given)
    if given is not None:
        opt.check_inputs(graph, given)
    else:
        opt.fixed_shapes(graph)
    inputs = opt.random_inputs(graph, graph.inputs) if given is None else given
    return quantised(graph, inputs), inputs


def run(options: argparse.Namespace, target: Target) -> int:
    """Run a network, compare it with the interpreter bit by bit, and print the cycles of each kernel.

    Writes the outputs, and a timeline of all kernels of the accelerator one after the other, where options ask for it.
    """
    from ...build import build
    from ...machines.scratchpad.simulated_device import timelines
    from ...machines.scratchpad.timeline import in_sequence
    from ...reference import graph as interpreter
    from .accel_output import files, pictures
    from .progress import progress
    from .run import save

    targets = files(options)
    graph, inputs = read(options)
    with progress() as report:
        module = build(graph, target=target, progress=report)
    start = time.perf_counter()
    outputs = module(**inputs)
    print(f"run in {time.perf_counter() - start:.1f} s")
    found = outputs if isinstance(outputs, tuple) else (outputs,)
    expected = interpreter.run(graph, [inputs[value.name] for value in graph.inputs])
    same = all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    print("the result is the interpreter's, bit by bit" if same else "the result is NOT that of the interpreter")
    start = time.perf_counter()
    timed = timelines(module.executable)
    print(f"timed in {time.perf_counter() - start:.1f} s")
    if "output" in targets:
        save(targets["output"], {value.name: array for value, array in zip(graph.outputs, found, strict=True)})
    mine = _table(module.executable, timed)
    if mine:
        for file in pictures(in_sequence(mine, graph.name), targets):
            print(f"wrote {file}")
    return 0 if same else 1


def _table(executable: Any, timed: dict[str, Timeline]) -> list[Timeline]:
    """Print the cycles of each call of the accelerator, and of all; returns the runs in their order."""
    from ...executable import CallKernel

    calls = [step for step in executable.steps if isinstance(step, CallKernel)]
    names = [executable.kernels[step.kernel].name for step in calls]
    mine = [(step.operator, timed[name]) for step, name in zip(calls, names, strict=True) if name in timed]
    width = max((len(operator) for operator, _ in mine), default=0)
    for operator, line in mine:
        print(f"{operator:{width}}  {line.cycles:>10,} cycles  array in use {line.utilisation:.2f}")
    total = sum(line.cycles for _, line in mine)
    print(f"{len(mine)} of {len(calls)} kernel calls are the accelerator's: {total:,} cycles")
    return [line for _, line in mine]


_ANCHORS = ("conv2d_elements", "add_elements", "max_pool2d_elements")  # a layer's function is named after one


def explain(options: argparse.Namespace, target: Target) -> int:
    """Print where each product, sum and pool of a network runs, and why not on the accelerator."""
    from ...build import optimize_graph
    from ...build_options import BuildOptions
    from ...lowering import place, to_units
    from ...machines.scratchpad.element_layout import refusals

    graph, _ = read(options)
    rows: dict[Any, str] = {}

    def look(name: str, before: Any, after: Any) -> None:
        if name == "element_layout":
            rows.update(refusals(before, target.config))

    units = to_units(optimize_graph(graph, target, BuildOptions(callback=look)))
    width = max((len(item.output.name) for item in rows), default=0)
    for item, why in rows.items():
        # A product is known by its weights, anything else by its result.
        shape = "x".join(map(str, (item.inputs[1] if len(item.inputs) > 1 and item.op != "add" else item.output).shape))
        print(f"{item.output.name:{width}}  {item.op:<13} {shape:>16}  {'host: ' + why if why else 'accelerator'}")
    late = {unit.name: place(unit.func, target).refusal for unit in units if any(w in unit.name for w in _ANCHORS)}
    for name, why in late.items():
        if why:
            print(f"{name} runs on the host after all: {why}")
    count = sum(not why for why in late.values())
    print(f"{count} of {len(rows)} layers run on the accelerator; {len(units) - count} kernels are the host's")
    return 0
