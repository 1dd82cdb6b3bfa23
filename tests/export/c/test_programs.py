"""C programs of small graphs compute the bits of their modules, under GCC's sanitizers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import Unsupported
from minitvm.export.c.project import project
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.reference.strategies.graphs import RandomGraph, graphs
from minitvm.reference.strategies.states import Stateful, stateful
from minitvm.script import from_source
from tests.executable import loop_graphs
from tests.export.c.programs import call, check, check_on_arm, compiled, needs_arm, needs_gcc, written
from tests.fewer import examples

pytestmark = needs_gcc

ADD = """
@T.prim_func
def add(a: T.Buffer((6,), "float32"), k: T.float32, n: T.int32, b: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("b"):
            vi = T.axis.spatial(6, i)
            b[vi] = a[vi] * k + T.cast(n, "float32")
"""


def names() -> Graph:
    """Names that are no identifiers, words of C, macros, and equal once they are identifiers."""
    b = GraphBuilder('double */ \\ "int" é')
    texts = ["input.1", "input 1", "1", "größe", "int", "EOF", "X", "x", "arena", "NULL", "class", "日本", 'a"b\\n?']
    values = [b.input(text, (2,)) for text in texts]
    return b.build([*values[1:], b.op("add", values[0], values[-1])])


def dtypes() -> Graph:
    """Every dtype that an input may have, each returned after an operation."""
    b = GraphBuilder("dtypes")
    ints = [b.input(f"x_{d}", (5,), d) for d in ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float64")]
    flags = b.input("flags", (5,), "bool")
    return b.build([*(b.op("add", x, x) for x in ints), b.op("logical_not", flags)])


def trivial() -> Graph:
    """Outputs that are inputs or constants, scalars, and tensors without elements; an output that is there twice."""
    b = GraphBuilder("trivial")
    x, scalar, empty = b.input("x", (2, 3)), b.input("scalar", ()), b.input("empty", (0, 3))
    total = b.op("add", scalar, 1.0)
    return b.build([x, b.constant(np.arange(3.0)), total, total, empty, b.op("nn.relu", empty)])


def alone() -> Graph:
    """No inputs."""
    b = GraphBuilder("alone")
    return b.build([b.constant(np.arange(4, dtype=np.int64))])


def sizes() -> Graph:
    """Two open sizes, in several forms, and results whose sizes follow from them."""
    b = GraphBuilder("sizes")
    n, m = SizeVar("n"), SizeVar("m")
    x, y = b.input("x", (n, 4)), b.input("y", (m, 4))
    both = b.op("concatenate", x, y, axis=0)
    return b.build([both, b.op("sum", both, axis=1)])


def found() -> Graph:
    """Sizes that the data decide: the number of elements that are not zero, and rows of that number."""
    b = GraphBuilder("found")
    x = b.input("x", (4, 5))
    flags = b.op("greater", x, 0.0)
    count = b.op("sum", b.op("cast", b.op("reshape", flags, newshape=(20,)), dtype="int64"), axis=0)
    size = SizeVar("count")
    b.op("bind_size", count, size=size, most=20)
    return b.build([b.op("leading", b.op("reshape", x, newshape=(20,)), size=size), count])


def divided() -> Graph:
    """Vectors of 512 bits that are converted to doubles."""
    b = GraphBuilder("divided")
    signed, unsigned = b.input("signed", (9,), "int32"), b.input("unsigned", (16,), "uint32")
    return b.build([b.op("divide", signed, b.input("by", (), "int32")), b.op("cast", unsigned, dtype="float64")])


CASES: list[Callable[[], Graph]] = [
    names, dtypes, trivial, alone, sizes, found, divided, loop_graphs.swapped, loop_graphs.rows, loop_graphs.nested,
]  # fmt: skip


@pytest.mark.parametrize("graph", CASES, ids=lambda graph: graph.__name__)
def test_each_kind_of_step_and_value(graph: Callable[[], Graph], tmp_path: Path) -> None:
    check(graph(), tmp_path / "net")


def test_a_loop_program_with_scalars(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"a": np.arange(6, dtype=np.float32), "k": np.float32(0.1), "n": np.int32(-3)}
    check(from_source(ADD), tmp_path / "net", inputs=arrays)
    unsigned = from_source(ADD.replace("n: T.int32", "double: T.uint64").replace("cast(n", "cast(double"))
    arrays["double"] = np.uint64(2**40 - 3)
    del arrays["n"]
    check(unsigned, tmp_path / "unsigned", inputs=arrays)
    with pytest.raises(Unsupported, match="wanted: scalars that C has\n  found:  k: float16"):
        project(from_source(ADD.replace("k: T.float32", "k: T.float16").replace("* k", '* T.cast(k, "float32")')))


@examples(5, 300, deadline=None)
@given(graphs())
def test_drawn_graphs(tmp_path_factory: pytest.TempPathFactory, drawn: RandomGraph) -> None:
    check(drawn.graph, tmp_path_factory.mktemp("drawn") / "net", inputs=drawn.inputs)


@needs_arm
@examples(3, 100, deadline=None)
@given(graphs())
def test_drawn_graphs_on_arm(tmp_path_factory: pytest.TempPathFactory, drawn: RandomGraph) -> None:
    check_on_arm(drawn.graph, tmp_path_factory.mktemp("drawn") / "net", inputs=drawn.inputs)


@examples(3, 30, deadline=None)
@given(stateful(), st.sampled_from(["array", "incbin", "bin"]))
def test_drawn_graphs_with_states(tmp_path_factory: pytest.TempPathFactory, drawn: Stateful, weights: str) -> None:
    check(drawn.graph, tmp_path_factory.mktemp("drawn") / "net", inputs=drawn.runs[0], weights=weights)


THREADS = """
#include "net.h"
#include <pthread.h>
#include <stdio.h>

#define ELEMENTS (256 * 256)
static float x[ELEMENTS], y[ELEMENTS], expected[ELEMENTS];
static _Alignas(64) unsigned char arena[NET_ARENA_BYTES + 64];
static int calls;

struct share { net_task *task; void *context; int64_t thread, threads; };

static void *begin(void *place)
{
    struct share *share = place;
    share->task(share->context, share->thread, share->threads);
    return NULL;
}

static void pool(net_task *task, void *context, int64_t threads, void *counter)
{
    pthread_t ids[8];
    struct share shares[8];
    ++*(int *)counter;
    for (int64_t t = 0; t < threads; ++t) {
        shares[t] = (struct share){task, context, t, threads};
        pthread_create(&ids[t], NULL, begin, &shares[t]);
    }
    for (int64_t t = 0; t < threads; ++t)
        pthread_join(ids[t], NULL);
}

int main(void)
{
    for (int i = 0; i < ELEMENTS; ++i)
        x[i] = (float)(i % 17) - 8;
    net_arguments a = {.input = {x}, .output = {expected}, .arena = arena, .arena_bytes = sizeof arena};
    if (net_run(&a) != 0) return 1;
    a.parallel = pool;
    a.pool = &calls;
    a.output.dense = y;
    for (a.threads = 1; a.threads <= 8; ++a.threads) {
        if (net_run(&a) != 0) return 2;
        for (int i = 0; i < ELEMENTS; ++i)
            if (y[i] != expected[i]) return 3;
    }
    printf("%s\\n", calls > 0 ? "shared" : "alone");
    return 0;
}
"""


def test_threads_share_the_work(tmp_path: Path) -> None:
    b = GraphBuilder("shared")
    x = b.input("x", (256, 256))
    folder = written(b.build([b.op("nn.dense", b.op("exp", x), x)]), tmp_path / "net")
    (folder / "main.c").write_text(THREADS)
    assert call(compiled(folder, "main.c"), folder=folder) == "shared\n"
