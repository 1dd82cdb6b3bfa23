"""CPUs of every width compute what the interpreter does; scalar ones do it without vectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import minitvm
from minitvm import expr as ex
from minitvm.frontends.onnx import conformance
from minitvm.frontends.onnx.backend import OnnxBackend, Runner
from minitvm.graph import Graph
from minitvm.target import Target
from minitvm.tir.nodes import IRModule
from minitvm.tools import models
from tests.reference.graph_operators.random_calls import FAMILIES, random_call
from tests.reference.graph_operators.runs import by_graph, graph_of, near

WIDTHS = (32, 64, 128, 256, 512)
SCALAR = Target("cpu -arch=cortex-m7")


def vectors(module: IRModule) -> Iterator[ex.Expr]:
    """The expressions of a module that have several lanes."""
    for func in module.functions.values():
        for node in ex.walk(func.body):
            if isinstance(node, ex.Expr) and node.dtype.lanes > 1:
                yield node


def wrong(family: str, seed: int, width: int) -> str:
    """Describe how a call on a CPU of this width differs from the interpreter; "" if it does not."""
    call = random_call(family, seed)
    module = minitvm.build(graph_of(call), f"cpu -width={width}", threads=1)
    module.run(**{f"x{number}": array for number, array in enumerate(call.inputs)})
    for number, expected in enumerate(by_graph(call)):
        output = np.asarray(module.get_output(number))
        if (output.dtype, output.shape) != (expected.dtype, expected.shape) or not near(output, expected):
            return f"{call}: {found} instead of {wanted}"
    return ""


@pytest.mark.parametrize(("place", "family"), [*enumerate(FAMILIES)])
def test_a_drawn_call_at_a_width(place: int, family: str) -> None:
    """Each family at one narrow width and at one wide one, which are others for the next family."""
    assert wrong(family, place, WIDTHS[place % 2]) == ""
    assert wrong(family, place + 1, WIDTHS[2 + place % 3]) == ""


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_for_a_scalar_cpu_have_no_vectors(family: str) -> None:
    for module in minitvm.lower(graph_of(random_call(family, 1)), SCALAR, stop_at="kernel").values():
        assert list(vectors(module)) == []


def test_a_loop_that_a_schedule_vectorises_is_serial_on_a_scalar_cpu() -> None:
    func = minitvm.te.create_prim_func([x := minitvm.te.placeholder((8,), name="x"), minitvm.topi.exp(x)])
    sch = minitvm.tir.Schedule(func)
    sch.vectorize(*sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[0]))
    assert list(vectors(minitvm.tir.transform.lower(sch.func, Target("cpu -width=128"))))
    assert list(vectors(minitvm.tir.transform.lower(sch.func, SCALAR))) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ["mobilenet_v2", "lstm_tagger", "vit_small", "whisper_encoder", "swin_t"])
def test_kernels_of_networks_for_a_scalar_cpu_have_no_vectors(name: str) -> None:
    for module in minitvm.lower(models.get(name), SCALAR, stop_at="kernel").values():
        assert list(vectors(module)) == []


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("family", FAMILIES)
def test_many_drawn_calls_at_every_width(family: str, width: int) -> None:
    assert [text for seed in range(8) if (text := wrong(family, seed, width))] == []


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS[:3])
def test_cases_of_onnx_at_narrow_widths(width: int) -> None:
    def engine(graph: Graph) -> Runner:
        module = minitvm.build(graph, f"cpu -width={width}", threads=1)

        def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            module.run(**inputs)
            return [np.array(module.get_output(k)) for k in range(len(graph.outputs))]

        return run

    class Narrow(OnnxBackend):
        """Compiles for the width."""

    Narrow.engine = staticmethod(engine)
    results = conformance.run_all(Narrow.prepare, conformance.cases()[width % 7 :: 7])
    assert [str(r) for r in results if r.outcome in (conformance.WRONG, conformance.FAILED)] == []
