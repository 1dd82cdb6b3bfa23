"""Contractions: what the axes are is read off the accesses; an open number of rows is right at every remainder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import reference, strategy, te, topi
from minitvm.errors import ScheduleError
from minitvm.machines.simd.topi.blocked import dense_packed
from minitvm.reference.judging.inputs.sizes import size_names
from minitvm.strategy.blocks import blocks_of, is_reduction
from minitvm.strategy.roles import Roles, roles
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import lower
from tests.fewer import examples
from tests.strategy.families import TARGET

CPU = Target(TARGET)
QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])


def reduction(func: PrimFunc) -> Any:
    return next(block for block in blocks_of(func) if is_reduction(block))


def named(func: PrimFunc) -> list[tuple[str | None, str, bool, int | None]]:
    """(row, column, contiguous, group) of each way to see the sum."""
    block = reduction(func)
    return [(None if way.row is None else _name(way, way.row), _name(way, way.column), way.contiguous, way.group)
            for way in roles(block)]  # fmt: skip


def _name(way: Roles, position: int) -> str:
    return "*".join(way.block.iter_vars[p].var.name for p in way.axes[position])


def test_roles_of_products_of_matrices() -> None:
    a, b, t = te.placeholder((8, 5), name="a"), te.placeholder((5, 16), name="b"), te.placeholder((16, 5), name="t")
    assert named(te.create_prim_func([a, b, topi.matmul(a, b)])) == [("v_i", "v_j", True, None)]
    assert named(te.create_prim_func([a, t, topi.dense(a, t)])) == [("v_i", "v_j", False, None)]


def test_roles_of_convolutions() -> None:
    x, w = te.placeholder((2, 4, 6, 20), name="x"), te.placeholder((8, 4, 3, 3), name="w")
    assert named(te.create_prim_func([x, w, topi.conv2d(x, w)])) == [("v_ff", "v_xx", True, None)]
    two_apart = te.create_prim_func([x, w, topi.conv2d(x, w, strides=2)])
    assert named(two_apart) == [("v_ff", "v_xx", False, None)]
    grouped = te.placeholder((8, 2, 3, 3), name="g")
    assert named(te.create_prim_func([x, grouped, topi.conv2d(x, grouped, groups=2)])) == [("v_ff", "v_xx", True, 4)]
    last = te.placeholder((2, 6, 20, 4), name="x")
    h = te.placeholder((3, 3, 4, 8), name="w")
    nhwc = te.create_prim_func([last, h, topi.conv2d(last, h, data_layout="NHWC", kernel_layout="HWIO")])
    assert {way[0] for way in named(nhwc)} == {"v_nn", "v_yy", "v_xx"}
    assert {way[1:] for way in named(nhwc)} == {("v_ff", True, None)}


def test_neighbours_that_are_one_axis_everywhere_are_joined() -> None:
    x, w = te.placeholder((2, 4, 6, 20), name="x"), te.placeholder((8, 4, 1, 1), name="w")
    assert named(te.create_prim_func([x, w, topi.conv2d(x, w)])) == [("v_ff", "v_yy*v_xx", True, None)]
    a, b = te.placeholder((3, 8, 5), name="a"), te.placeholder((5, 16), name="b")
    assert named(te.create_prim_func([a, b, topi.matmul(a, b)])) == [("v_b0*v_i", "v_j", True, None)]
    n = te.size_var("n")
    c = te.placeholder((3, n, 5), name="c")
    rows = {way[0] for way in named(te.create_prim_func([c, b, topi.matmul(c, b)]))}
    assert rows == {"v_b0", "v_i"}, "an open extent inside: the place along it is no division by a constant"


def test_of_open_rows_the_inner_are_tiled() -> None:
    """A batch of sequences, both open: tiles along a batch of one would have a single row each."""
    batch, length = te.size_var("batch"), te.size_var("length")
    a, b = te.placeholder((batch, length, 32), name="a"), te.placeholder((32, 64), name="b")
    func = te.create_prim_func([a, b, topi.matmul(a, b)])
    assert [way[0] for way in named(func)] == ["v_i", "v_b0"]
    choice = strategy.choice_of(strategy.scheduled(func, CPU))
    assert choice is not None and choice.weighed[0].knobs["row"] == "v_i"
    c = te.placeholder((batch, 4, length, 32), name="c")
    assert [way[0] for way in named(te.create_prim_func([c, b, topi.matmul(c, b)]))] == ["v_i", "v_b0*v_b1"]


def test_packed_columns_are_contiguous_in_their_panels() -> None:
    a, w = te.placeholder((4, 5), name="a"), te.placeholder((3, 5, 8), name="w")
    (way,) = roles(reduction(te.create_prim_func([a, w, dense_packed(a, w, units=20)])))
    assert way.panel == 8 and way.contiguous
    x = te.placeholder((16, 5), name="x")
    (turned,) = roles(reduction(te.create_prim_func([a, x, topi.dense(a, x)])))
    assert turned.panel == 0 and not turned.contiguous


@pytest.mark.parametrize(("m", "n", "order"), [(100, 688, "ax1_0_ax0_0"), (688, 100, "ax0_0_ax1_0")])
def test_tasks_read_the_larger_operand_once(m: int, n: int, order: str) -> None:
    """Blocks of rows of a panel are neighbours where panels are more than rows, and the other way round."""
    a, b, k = te.placeholder((m, 8), name="a"), te.placeholder((8, n), name="b"), te.reduce_axis((0, 8), "k")
    product = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
    knobs = {"row": "v_i", "column": "v_j", "rows": 4, "vectors": 2, "task_rows": 8, "pack": False, "phases": False}
    sch = strategy.schedule(te.create_prim_func([a, b, product]), Target(TARGET), knobs=knobs)
    tasks, *_ = sch.get_loops(sch.get_block("product_update"))
    assert sch.get(tasks).var.name == f"{order}_fused"


def test_what_is_no_contraction() -> None:
    x = te.placeholder((8, 5), name="x")
    assert named(te.create_prim_func([x, topi.sum(x, axis=1)])) == []
    assert named(te.create_prim_func([x, topi.dense(x, x)])) == [], "one buffer twice"


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9])
def test_an_open_number_of_rows_at_every_remainder(n: int) -> None:
    m = te.size_var("m")
    a, b = te.placeholder((m, 6), name="a"), te.placeholder((6, 10), name="b")
    func = te.create_prim_func([a, b, topi.relu(topi.matmul(a, b))])
    schedule = strategy.schedule(func, CPU, {"rows": 4, "vectors": 2, "pack": False})
    module = lower(schedule.func, CPU, "main")
    assert reference.check(func, module, modes=("exact", "shadow"), sizes={"m": n}).equal


@given(
    step=st.integers(2, 4), width=st.integers(9, 40), kernel=st.integers(1, 3), padding=st.integers(0, 1),
    computed=st.booleans(),
)  # fmt: skip
@settings(QUICK, max_examples=8)
def test_columns_that_lie_apart_are_stored_phase_by_phase(
    step: int, width: int, kernel: int, padding: int, computed: bool
) -> None:
    x, w = te.placeholder((1, 4, width), name="x"), te.placeholder((8, 2, kernel), name="w")
    data = topi.relu(x) if computed else x
    func = te.create_prim_func([x, w, topi.conv1d(data, w, strides=step, padding=padding, groups=2)])
    schedule = strategy.schedule(func, CPU, {"phases": True, "rows": 4, "vectors": 1})
    stored = [load.buffer.shape for block in blocks_of(schedule.func) if is_reduction(block) for load in block.reads]
    assert any(len(shape) == 4 and int(shape[2]) == step for shape in stored)
    verdict = reference.check(func, lower(schedule.func, CPU, "main"), modes=["exact"])
    assert verdict.equal, verdict


def a_group_is_packed_once() -> None:
    """The copy of what all rows of a group read has an axis of groups: rows would make as many copies."""
    x, w = te.placeholder((1, 6, 3, 20), name="x"), te.placeholder((8, 3, 2, 3), name="w")
    func = te.create_prim_func([x, w, topi.relu(topi.conv2d(x, w, groups=2))])
    try:
        packed = strategy.schedule(func, CPU, {"pack": True, "rows": 4, "vectors": 1}).func
    except ScheduleError as error:
        raise AssertionError(f"groups: {error}") from error
    product = next(block for block in blocks_of(packed) if is_reduction(block))
    sums = product.writes[0].buffer
    copy = next(read.buffer for read in product.reads if read.buffer.scope == "local" and read.buffer is not sums)
    assert [int(extent) for extent in copy.shape] == [2, 2, 3, 2, 3, 18]  # group, line, what is summed, column
    verdict = reference.check(func, lower(packed, CPU, "main"), modes=["exact"])
    assert verdict.equal, verdict


def test_a_group_is_packed_once() -> None:
    a_group_is_packed_once()


def batches_are_contractions() -> None:
    """A batch of one element, over however many axes, is a batch: its panels are packed as those of any other."""
    for batch in ((1,), (1, 1), (1, 2), (2, 2)):
        a, b = te.placeholder((*batch, 5, 3), name="a"), te.placeholder((*batch, 3, 5), name="b")
        func = te.create_prim_func([a, b, topi.matmul(a, b)])
        candidates = [one for one in strategy.candidates(func, CPU) if one.rule == "contraction"]
        packed = next(one for one in candidates if one.knobs["pack"])
        try:
            verdict = reference.check(func, packed.schedule(func).func, modes=["exact"])
        except ScheduleError as error:
            raise AssertionError(f"a batch of {batch}: {error}") from error
        assert verdict.equal, (batch, packed.knobs)


def test_batches_are_contractions() -> None:
    batches_are_contractions()


@pytest.mark.parametrize(("size", "stride", "channels"), [(3, 2, 4), (10, 5, 1), (4, 4, 3)])
def test_strided_convolutions_of_open_length_are_contractions(size: int, stride: int, channels: int) -> None:
    """Nothing shows that there are results at all: a length may be shorter than the window."""
    n = te.size_var("n")
    x, w = te.placeholder((1, channels, n), name="x"), te.placeholder((16, channels, size), name="w")
    bias = te.placeholder((16, 1), name="bias")
    func = te.create_prim_func([x, w, bias, topi.relu(topi.add(topi.conv1d(x, w, strides=stride), bias))])
    best = strategy.candidates(func, Target("cpu"))[0]
    assert best.rule == "contraction"
    best.schedule(func)  # no step is refused
    compiled = minitvm.build(func, target="cpu")
    rng = np.random.default_rng(0)
    for length in (size, size + stride, 41, 200):
        data, filters = (
            rng.integers(-3, 4, s).astype("float32") for s in ((1, channels, length), (16, channels, size))
        )
        offsets = rng.integers(-3, 4, (16, 1)).astype("float32")
        count = (length - size) // stride + 1
        found = np.zeros((1, 16, count), "float32")
        compiled(data, filters, offsets, found)
        seen = np.stack([data[0, :, k * stride : k * stride + size] for k in range(count)], -1)
        expected = np.maximum(np.einsum("ckx,ock->ox", seen, filters) + offsets, 0)
        np.testing.assert_array_equal(found[0], expected)


MACHINES = (TARGET, "cuda -arch=sm_80", "opencl -device=amd", "opencl -device=mali", "accel", "gemmini")


@st.composite
def sums_of_products(draw: Any, sizes: tuple[int, ...]) -> PrimFunc:
    """Products of one to three tensors, summed over any of their axes, all of them included, and what may follow."""
    labels = "abcd"[: draw(st.integers(1, 4))]
    extent = {x: te.size_var(x) if draw(st.integers(0, 3)) == 0 else draw(st.sampled_from(sizes)) for x in labels}
    axes = st.lists(st.sampled_from(labels), unique=True)
    terms = draw(st.lists(axes, min_size=1, max_size=3).filter(any))
    result = [x for x in draw(st.permutations(labels)) if any(x in term for term in terms) and draw(st.booleans())]
    dtype = draw(st.sampled_from(["float32", "float32", "float16", "int32"]))
    inputs = [te.placeholder([extent[x] for x in term], dtype, f"x{n}") for n, term in enumerate(terms)]
    y = topi.einsum(*inputs, equation=",".join(map("".join, terms)) + "->" + "".join(result))
    follows = draw(st.sampled_from(["nothing", "relu", "add", "cast", "two"]))
    if follows == "nothing":
        return te.create_prim_func([*inputs, y])
    if follows == "add":
        other = te.placeholder(y.shape, dtype, "other")
        return te.create_prim_func([*inputs, other, topi.relu(topi.add(y, other))])
    if follows == "two":
        return te.create_prim_func([*inputs, topi.relu(y), topi.negative(y)])
    return te.create_prim_func([*inputs, topi.relu(y) if follows == "relu" else topi.cast(y, dtype="float64")])


@pytest.mark.parametrize("machine", MACHINES)
@given(func=sums_of_products(sizes=(1, 2, 5, 8, 33, 64)))
@examples(12, 400, deadline=None, derandomize=True)
def test_sums_of_products_of_any_ranks_are_scheduled(machine: str, func: PrimFunc) -> None:
    strategy.schedule(func, Target(machine))


@pytest.mark.parametrize("machine", MACHINES[:3])
@given(func=sums_of_products(sizes=(1, 2, 3)))
@examples(4, 60, deadline=None, derandomize=True)
def test_sums_of_products_of_any_ranks_keep_their_meaning(machine: str, func: PrimFunc) -> None:
    sizes = dict.fromkeys(sorted(size_names(func, func)), 3)
    verdict = reference.check(func, strategy.schedule(func, Target(machine)).func, modes=["exact"], sizes=sizes)
    assert verdict.equal, str(verdict)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("size", [8, None], ids=["fixed", "open"])
def test_a_vector_times_a_vector_is_one_number(dtype: str, size: int | None) -> None:
    extent = te.size_var("n") if size is None else size
    a, b = te.placeholder((extent,), dtype, "a"), te.placeholder((extent,), dtype, "b")
    product = topi.einsum(a, b, equation="i,i->")
    for result in (product, topi.relu(product), topi.cast(product, dtype="float64")):
        func = te.create_prim_func([a, b, result])
        assert strategy.choice_of(strategy.scheduled(func, CPU)).rule == "generic"
        sizes = {"n": 5} if size is None else {}
        assert reference.check(func, strategy.schedule(func, CPU).func, sizes=sizes, modes=["exact"]).equal


@pytest.mark.parametrize("machine", MACHINES[1:4])
def test_parts_of_a_sum_without_rows_have_no_rows(machine: str) -> None:
    """Splitting the sum adds an axis, along which the first operand differs: no row of tiles."""
    n = te.size_var("n")
    a, b = te.placeholder((n, 33), name="a"), te.placeholder((8,), name="b")
    func = te.create_prim_func([a, b, topi.einsum(a, b, equation="ij,k->i")])
    candidates = [one for one in strategy.candidates(func, Target(machine)) if one.knobs.get("splits", 1) > 1]
    for candidate in candidates[:2]:
        schedule = candidate.schedule(func)
        assert reference.check(func, schedule.func, sizes={"n": 3}, modes=["exact"]).equal
    assert candidates
