"""What TVM takes, and the forms in which it leaves programs. `make fuzz-tvm` compares both on random steps; here stand
properties over random layouts and tiles, and examples of which a real TVM gave the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import te, tir
from minitvm.compat.tvm.schedule.transform import tile_with_tensor_intrin
from minitvm.errors import ScheduleError
from minitvm.expr import replace, structural_equal
from minitvm.machines.cpu.intrinsics import MATMUL_4X4X4_F32
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
    has_block,
    is_output_block,
    suggest_index_map,
)

INTRINSIC = MATMUL_4X4X4_F32


@T.prim_func
def plain_product(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@st.composite
def through_a_layout(draw: st.DrawFn) -> tuple[PrimFunc, int]:
    """B computed in one layout and read in another: packed, unpacked, repeated or a part; and how many loops B has."""
    outer, inner = draw(st.sampled_from([2, 4, 6])), draw(st.sampled_from([2, 3, 4]))
    size = outer * inner
    kind = draw(st.sampled_from(["packed", "unpacked", "repeated", "part"]))
    shape = (outer, inner) if kind == "unpacked" else (size,)
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A[i] * 2.0, name="B")
    if kind == "packed":
        C = te.compute((outer, inner), lambda i, j: B[i * inner + j] + 1.0, name="C")
    elif kind == "unpacked":
        C = te.compute((size,), lambda i: B[i // inner, i % inner] + 1.0, name="C")
    elif kind == "repeated":
        C = te.compute((size * inner,), lambda i: B[i // inner] + 1.0, name="C")
    else:
        C = te.compute((size - inner,), lambda i: B[i + 1] + 1.0, name="C")
    return te.create_prim_func([A, C]), len(shape)


@settings(max_examples=25, deadline=None)
@given(through_a_layout(), st.booleans(), st.data())
def test_a_consumer_follows_its_producer_through_a_layout(
    program: tuple[PrimFunc, int], keep: bool, data: st.DataObject
) -> None:
    """Through `//`, `%`, packed reads, and where only a part is read."""
    func, depth = program
    sch = Schedule(func)
    loop = sch.get_loops("B")[data.draw(st.integers(0, depth - 1))]
    sch.reverse_compute_at("C", loop, preserve_unit_loops=keep)
    verdict = check(func, sch.func)
    assert verdict, f"{verdict}\n{sch.func.script()}"


@T.prim_func
def copied(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + 1.0


@T.prim_func
def fused_and_split(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    for f_0, f_1 in T.grid(8, 16):
        with T.block("C"):
            vi = T.axis.spatial(16, (f_0 * 16 + f_1) // 8)
            vj = T.axis.spatial(8, (f_0 * 16 + f_1) % 8)
            C[vi, vj] = A[vi, vj] + 1.0


@T.prim_func
def split_in_three(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    for i, j_0, j_1, j_2 in T.grid(16, 2, 2, 3):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            vj = T.axis.spatial(8, j_0 * 6 + j_1 * 3 + j_2)
            T.where((j_0 * 2 + j_1) * 3 + j_2 < 8)
            C[vi, vj] = A[vi, vj] + 1.0


@T.prim_func
def split_by_one(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    for i_0, i_1, j_0, j_1 in T.grid(1, 16, 4, 2):
        with T.block("C"):
            vi = T.axis.spatial(16, i_0 * 16 + i_1)
            vj = T.axis.spatial(8, j_0 * 2 + j_1)
            C[vi, vj] = A[vi, vj] + 1.0


def _fused_and_split(sch: Schedule) -> None:
    sch.split(sch.fuse(*sch.get_loops("C")), [None, 16])


def _split_in_three(sch: Schedule) -> None:
    sch.split(sch.get_loops("C")[1], [2, None, 3])


def _split_by_one(sch: Schedule) -> None:
    i, j = sch.get_loops("C")
    sch.split(i, [1, None])
    sch.split(j, [None, 2])


@pytest.mark.parametrize(
    ("steps", "after"),
    [(_fused_and_split, fused_and_split), (_split_in_three, split_in_three), (_split_by_one, split_by_one)],
)
def test_bindings_and_predicates_of_split_and_fused_loops(steps: object, after: PrimFunc) -> None:
    sch = Schedule(copied)
    steps(sch)  # type: ignore[operator]
    assert structural_equal(sch.func, replace(after, attrs=sch.func.attrs)), sch.func.script()
    assert check(copied, sch.func)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([2, 4, 8]), st.sampled_from([2, 4]), st.booleans())
def test_a_cache_inside_a_block_holds_the_blocks_part(rows: int, columns: int, write: bool) -> None:
    sch = Schedule(copied)
    i, j = sch.get_loops("C")
    (i_0, i_1), (j_0, j_1) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
    sch.reorder(i_0, j_0, i_1, j_1)
    sch.blockize(i_1)
    copy = sch.cache_write("C", 0, "local") if write else sch.cache_read("C", 0, "local")
    (region,) = sch.get(copy).reads if write else sch.get(copy).writes
    assert [int(d.value) for d in region.buffer.shape] == [rows, columns]
    verdict = check(copied, sch.func)
    assert verdict, f"{verdict}\n{sch.func.script()}"


@T.prim_func
def through_views(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    B = T.alloc_buffer((16, 8))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            row = T.match_buffer(B[vi, 0:8], (8,), offset_factor=1)
            for j in range(8):
                with T.block("row"):
                    vj = T.axis.spatial(8, j)
                    row[vj] = A[vi, vj] * 2.0
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.unsafe_set_dtype("B", 0, "float64"),
        lambda s: s.cache_write("B", 0, "shared"),
        lambda s: s.cache_read("C", 0, "local"),
    ],
)
def test_views_follow_their_buffer(step: object) -> None:
    sch = Schedule(through_views)
    step(sch)  # type: ignore[operator]
    verdict = check(through_views, sch.func)
    assert verdict, f"{verdict}\n{sch.func.script()}"


def test_copies_stand_before_the_first_reader_or_at_the_end() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    D = te.compute((8,), lambda i: B[i] + C[i], name="D")
    func = te.create_prim_func([A, C, D])

    def order(step: object) -> list[str]:
        sch = Schedule(func)
        step(sch)  # type: ignore[operator]
        assert check(func, sch.func)
        return [b.block.name for b in sch.state.tree().blocks.values()][1:]

    assert order(lambda s: s.cache_read("D", 0, "local", consumer_blocks=["D"])) == ["B", "C", "B_local", "D"]
    assert order(lambda s: s.cache_write("B", 0, "local", consumer_blocks=["C"])) == ["B", "C", "B_local", "D"]
    assert order(lambda s: s.cache_write("C", 0, "local")) == ["B", "C", "C_local", "D"]
    assert order(lambda s: s.cache_write("D", 0, "local")) == ["B", "C", "D", "D_local"]


# ---- tir.schedule.analysis ------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.permutations([0, 1, 2, 3]), st.lists(st.sampled_from([2, 3, 4]), min_size=4, max_size=4))
def test_the_suggested_layout_is_walked_in_order(order: list[int], extents: list[int]) -> None:
    """In the layout that is suggested, the loops, outermost first, meet the elements one after the other."""
    loops = [tir.For(tir.Var(f"l{k}", "int32"), 0, extents[k], tir.ForKind.SERIAL, tir.Evaluate(0)) for k in range(4)]
    first, second, third, fourth = (loops[k].loop_var for k in order)
    e = [extents[k] for k in order]
    buffer = tir.decl_buffer((e[0] * e[1], e[2] * e[3]))
    found = suggest_index_map(buffer, [first * e[1] + second, third * e[3] + fourth], loops, True)
    assert found is not None
    array = np.zeros((e[0] * e[1], e[2] * e[3]), "int64")
    for number, point in enumerate(np.ndindex(*extents)):
        p = [point[k] for k in order]
        array[p[0] * e[1] + p[1], p[2] * e[3] + p[3]] = number
    assert found.map_ndarray(array).ravel().tolist() == list(range(array.size))


def test_no_layout_is_suggested_for_an_access_that_overlaps() -> None:
    i, j = (tir.For(tir.Var(n, "int32"), 0, 8, tir.ForKind.SERIAL, tir.Evaluate(0)) for n in "ij")
    assert suggest_index_map(tir.decl_buffer((8, 16)), [i.loop_var, i.loop_var + j.loop_var], [i, j], True) is None


def _product(m: int, n: int, k: int) -> PrimFunc:
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    return te.create_prim_func([A, B, te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")])


@pytest.mark.parametrize(("size", "padded"), [((8, 12, 4), False), ((7, 8, 5), True)])
def test_loops_are_mapped_to_an_intrinsics_and_tiled(size: tuple[int, int, int], padded: bool) -> None:
    desc = tir.TensorIntrin.get(INTRINSIC)
    assert desc is not None
    func = _product(*size)
    sch = Schedule(func)
    block = sch.get_block("C")
    if padded:
        assert get_tensorize_loop_mapping(sch, block, desc.desc) is None
    info = get_tensorize_loop_mapping(sch, block, desc.desc, allow_padding=padded)
    assert info is not None
    assert [info.desc_loop_indexer[info.loop_map[sch.get_sref(loop)]] for loop in sch.get_loops(block)] == [0, 1, 2]
    assert info.block_iter_paddings == ((4, 1, 4) if padded else None)
    tile = tile_with_tensor_intrin(sch, block, INTRINSIC, allow_padding=padded)
    assert tile == sch.get_loops(block)[3]
    assert [int(sch.get(loop).extent.value) for loop in sch.get_loops(block)[3:]] == [4, 4, 4]
    verdict = check(func, sch.func)
    assert verdict, f"{verdict}\n{sch.func.script()}"


def test_nothing_is_mapped_where_kinds_differ() -> None:
    desc = tir.TensorIntrin.get(INTRINSIC)
    assert desc is not None
    sch = Schedule(copied)
    assert get_tensorize_loop_mapping(sch, "C", desc.desc) is None
    assert tile_with_tensor_intrin(sch, "C", INTRINSIC) is None
    assert get_auto_tensorize_mapping_info(sch, "C", desc.desc) is None


def test_a_convolution_becomes_a_product() -> None:
    A, W = te.placeholder((1, 6, 6, 4), name="A"), te.placeholder((3, 3, 4, 8), name="W")
    rh, rw, rc = te.reduce_axis((0, 3), name="rh"), te.reduce_axis((0, 3), name="rw"), te.reduce_axis((0, 4), name="rc")
    C = te.compute(
        (1, 4, 4, 8),
        lambda n, h, w, c: te.sum(A[n, h + rh, w + rw, rc] * W[rh, rw, rc, c], axis=[rh, rw, rc]),
        name="C",
    )
    sch = Schedule(te.create_prim_func([A, W, C]))
    info = get_auto_tensorize_mapping_info(sch, "C", plain_product)
    assert info is not None
    (mapping,) = info.mappings
    wanted = tir.IndexMap.from_func(lambda n, h, w, c, rh, rw, rc: (n * 16 + h * 4 + w, c, rh * 12 + rw * 4 + rc))
    assert mapping.is_equivalent_to(wanted)
    assert [it.var.name for it in info.rhs_iters] == ["vi", "vj", "vk"]
    sch.transform_block_layout("C", mapping)


def test_questions_about_blocks() -> None:
    sch = Schedule(through_views)
    assert has_block(sch, "row")
    assert not has_block(sch, "D")
    assert is_output_block(sch, sch.get_block("C"))
    assert not is_output_block(sch, "B")


def test_can_decompose_padding_asks_and_changes_nothing() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((12,), lambda i: te.if_then_else(te.all(i >= 2, i < 10), A[i - 2], 0.0), name="B")
    func = te.create_prim_func([A, B, te.compute((12,), lambda i: B[i] * 2.0, name="C")])
    sch = Schedule(func)
    assert sch.can_decompose_padding("B", sch.get_loops("B")[0])
    assert not sch.can_decompose_padding("C", sch.get_loops("C")[0])
    assert sch.func is func


@st.composite
def at_constants(draw: st.DrawFn) -> PrimFunc:
    """B stored at iterators and constants, in any order, and read there; its value uses some of the iterators."""
    places = draw(st.permutations(["vi", "vj", *map(str, draw(st.lists(st.integers(0, 2), max_size=2)))]))
    index = ", ".join(places[: draw(st.integers(1, len(places)))])
    used = [v for v in ("vi", "vj") if v in index]
    value = draw(st.sampled_from(["T.float32(3)", *(f"A[{v}] * T.float32(2)" for v in used)]))
    shape = ", ".join("3" for _ in index.split(","))
    reads = draw(st.sampled_from([f"B[{index}] + A[vj]", f"B[{index}] * B[{index}]"]))
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((3,), "float32"), C: T.Buffer((3, 3), "float32")):
    B = T.alloc_buffer(({shape},))
    for i, j in T.grid(3, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[{index}] = {value}
    for i, j in T.grid(3, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {reads}
""")


@settings(max_examples=25, deadline=None)
@given(at_constants())
def test_a_producer_at_constant_indices_is_inlined(func: PrimFunc) -> None:
    sch = Schedule(func)
    sch.compute_inline("B")
    assert not has_block(sch, "B")
    verdict = check(func, sch.func)
    assert verdict, f"{verdict}\n{func.script()}\n{sch.func.script()}"


def test_a_scalar_that_follows_from_no_index_is_not_inlined() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((3,), "float32"), C: T.Buffer((3,), "float32")):
    B = T.alloc_buffer((1,))
    for i in range(3):
        with T.block("B"):
            vi = T.axis.spatial(3, i)
            B[0] = A[vi]
    for i in range(3):
        with T.block("C"):
            vi = T.axis.spatial(3, i)
            C[vi] = B[0]
""")
    with pytest.raises(ScheduleError, match="plain_indices"):
        Schedule(func).compute_inline("B")


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_a_copy_has_the_places_that_the_block_reads(stride: int, dilation: int, data: st.DataObject) -> None:
    """Windows overlap: iterations that go to one place of the copy read one element. Other maps may not."""
    A, W = te.placeholder((4, 20), name="A"), te.placeholder((3,), name="W")
    r = te.reduce_axis((0, 3), name="r")
    C = te.compute((4, 5), lambda i, j: te.sum(A[i, j * stride + r * dilation] * W[r], axis=r), name="C")
    func = te.create_prim_func([A, W, C])
    sch = Schedule(func)
    rows = data.draw(st.permutations([0, 1, 2]))
    more = data.draw(st.integers(2, 3))
    sch.reindex_cache_read(
        "C", 0, "shared", lambda i, j, r: [(i, j * stride + r * dilation, j)[k] for k in rows if k < more]
    )
    verdict = check(func, sch.func)
    assert verdict, f"{verdict}\n{sch.func.script()}"
    with pytest.raises(ScheduleError, match="map_of_read"):
        Schedule(func).reindex_cache_read("C", 0, "shared", lambda i, j, r: (i, j // 2, r))


@pytest.mark.parametrize(
    ("shape", "layout", "shown"),
    [
        ((1, 16), lambda n, c: (n, c // 4, c % 4), "B[v_i0, v_i1 // 4, v_i1 % 4]"),
        ((1, 16), lambda n, c: (n * 16 + c,), "B[v_i1]"),
        ((3,), lambda c: (c // 4, c % 4), "B[v_i0 // 4, v_i0 % 4]"),
        ((48,), lambda c: (c // 24, c // 6 % 4, c % 6), "B[v_i0 // 24, v_i0 % 24 // 6, v_i0 % 6]"),
        ((14,), lambda c: (c // 4, c % 4), "T.if_then_else(v_axis0 == 3 and 2 <= v_axis1, T.float32(0.0), "),
        ((14, 3), lambda i, j: (i // 4, j, i % 4), "for axis0, j, axis2 in T.grid(4, 3, 4)"),
    ],
)
def test_a_layout_is_written_as_tvm_writes_it(shape: tuple[int, ...], layout: Any, shown: str) -> None:
    """Iterators of one value, digits, tiles that are not filled, and where the padding is."""
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A(*i) * 2.0, name="B")
    func = te.create_prim_func([A, te.compute(shape, lambda *i: B(*i) + 1.0, name="C")])
    sch = Schedule(func)
    sch.transform_layout("B", ("write", 0), layout, pad_value=0.0)
    assert shown in sch.func.script()
    assert check(func, sch.func, shrink=False)
