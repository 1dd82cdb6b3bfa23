"""Whatever the caller of a C program does wrong ends in a status and a text, under the sanitizers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from tests.export.c.programs import call, compiled, needs_gcc, written

pytestmark = needs_gcc

OPEN = """
#include "net.h"
#include <stdio.h>

static _Alignas(64) unsigned char arena[4096];
static float x[16][4], top[6][4], take[3][4];
static int64_t index[3];

static net_arguments good(void)
{
    net_arguments a = {0};
    a.sizes.n = 8;
    a.input.x = x[0];
    a.input_elements.x = 32;
    a.input.index = index;
    a.output.topk_0 = top[0];
    a.output.take = take[0];
    a.arena = arena;
    a.arena_bytes = sizeof arena;
    return a;
}

#define TRY(change) { net_arguments a = good(); change; int status = net_run(&a); \\
    printf("%d %s\\n", NET_ERROR(status), net_error_text(status)); }

int main(void)
{
    net_plan plan;
    net_sizes sizes = {8};
    if (net_plan_memory(&sizes, &plan) == 0)
        printf("plan: %d bytes, %d elements\\n", (int)plan.arena_bytes, (int)plan.input_elements.x);
    const int64_t all_n[] = {0, 5, 6, INT32_MAX, INT64_C(1) << 31, INT64_C(1) << 32, INT64_MAX / 16, INT64_MAX, -1};
    for (size_t i = 0; i < sizeof all_n / sizeof *all_n; ++i) {
        net_arguments a = good();
        a.sizes.n = sizes.n = all_n[i];
        const int run = net_run(&a), planned = net_plan_memory(&sizes, &plan);
        if (planned != 0 ? planned != run : NET_ERROR(run) == NET_ERROR_SIZE)
            printf("plan and run differ: %s, %s\\n", net_error_text(planned), net_error_text(run));
    }
    printf("%s\\n%s\\n%s\\n", net_error_text(net_run(NULL)), net_error_text(-1), net_error_text(1 << 20));
    TRY((void)a)
    TRY(a.input.x = NULL)
    TRY(a.input.x = (const float *)((const char *)x + 1))
    TRY(a.input_elements.x = 31)
    TRY(a.output.take = NULL)
    TRY(a.output.take = x[1])
    TRY(a.output.take = top[5])
    TRY(a.arena = NULL)
    TRY(a.arena = arena + 32)
    TRY(a.arena_bytes = 100)
    TRY(a.sizes.n = -1)
    TRY(a.sizes.n = 5; a.input_elements.x = 20)
    TRY(a.sizes.n = INT64_MAX / 4)
    TRY(a.sizes.n = INT64_MIN)
    TRY(index[1] = 8)
    TRY(index[1] = -9)
    TRY(index[1] = 0; a.parallel = (net_parallel *)(uintptr_t)main)
    TRY((void)a)
    return 0;
}
"""

OPEN_TEXTS = """\
plan: 640 bytes, 32 elements
the arguments are NULL
no status of net
no status of net
0 no error
1 input x: the pointer is NULL
2 input x: the pointer is not a multiple of 4 bytes
4 input x: the number of elements does not fit float32[n, 4]
1 output take: the pointer is NULL
3 outputs, arena and states may not overlap each other, the inputs or the weights
3 outputs, arena and states may not overlap each other, the inputs or the weights
1 the arena is NULL
2 the arena: the pointer is not a multiple of 64 bytes
4 the arena is too small; wanted: net_plan_memory
6 the size n is negative
6 topk topk_0 does not take these sizes: n >= 6 must hold
6 the sizes are too large
6 the size n is negative
8 take: the index i is out of range along axis 0 of float32[n, 4]: wanted at most max(n - 1, 0)
8 take: the index -i is out of range along axis 0 of float32[n, 4]: wanted at least -n
10 the number of threads is not positive
0 no error
"""


def open_graph() -> Graph:
    """Rows of an open number, at least six of them, and some of these by their indices."""
    b = GraphBuilder("rows")
    x, index = b.input("x", (SizeVar("n"), 4)), b.input("index", (3,), "int64")
    top = b.op("topk", x, k=6, axis=0)[0]
    return b.build([top, b.op("take", b.op("add", x, 1.0), index, axis=0)])


def test_sizes_pointers_and_data(tmp_path: Path) -> None:
    arrays = {"x": np.ones((6, 4), np.float32), "index": np.array([0, 1, 2])}
    folder = written(open_graph(), tmp_path / "net", checked=True, inputs=arrays)
    (folder / "main.c").write_text(OPEN)
    assert call(compiled(folder, "main.c"), folder=folder) == OPEN_TEXTS


STATEFUL = """
#include "net.h"
#include <stdio.h>
#include <string.h>

static net_state state;
static float x[6], y[6];
static _Alignas(64) unsigned char weights[NET_WEIGHTS_BYTES];

#define TRY(change) { change; int status = net_run(&a); printf("%d %s\\n", NET_ERROR(status), net_error_text(status)); }

int main(void)
{
    net_arguments a = {.input = {x}, .output = {y}, .state = &state};
    x[0] = 1.5f;
    net_reset(&state);
    net_reset(NULL);
    TRY((void)a)
    TRY((void)a)
    printf("%g\\n", y[0]);
    net_reset(&state);
    TRY((void)a)
    printf("%g\\n", y[0]);
    TRY(a.state = NULL)
    TRY(a.state = (net_state *)((char *)&state + 4))
    a.state = &state;
    memcpy(weights, net_weights, sizeof weights);
    TRY(a.weights = weights; a.weights_bytes = sizeof weights - 1)
    TRY(a.weights_bytes = sizeof weights)
    TRY(weights[20] ^= 1)
    TRY(weights[20] ^= 1; a.output.add = state.s)
    return 0;
}
"""

STATEFUL_TEXTS = """\
0 no error
0 no error
3
0 no error
1.5
1 the state is NULL
2 the state: the pointer is not a multiple of 64 bytes
5 the weights belong to another program, or are incomplete
0 no error
5 the weights belong to another program, or are incomplete
3 outputs, arena and states may not overlap each other, the inputs or the weights
"""


def stateful_graph() -> Graph:
    """A sum over all runs, of an input and weights."""
    b = GraphBuilder("sums")
    s, x = b.input("s", (2, 3)), b.input("x", (2, 3))
    y = b.op("add", s, b.op("multiply", x, b.constant(np.arange(1, 7, dtype=np.float32).reshape(2, 3))))
    return b.build([y], states={s: y})


def test_states_and_weights(tmp_path: Path) -> None:
    folder = written(stateful_graph(), tmp_path / "net", weights="array")
    (folder / "main.c").write_text(STATEFUL)
    assert call(compiled(folder, "main.c"), folder=folder) == STATEFUL_TEXTS
