"""An instruction in the place of loops: what it means to interpreters, analyses, code generators and text."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import reference, tir
from minitvm.errors import InputError, TypeMismatch, Unsupported
from minitvm.expr import call, const, structural_equal, walk
from minitvm.expr.structural import structural_hash
from minitvm.machines.cpu.codegen import numba_cpu
from minitvm.machines.opencl.codegen import statements as opencl
from minitvm.script import from_source
from minitvm.tir import Async, BufferStore, Instruction, TensorIntrin, Tile
from minitvm.tir.analysis.effects import effects
from minitvm.tir.analysis.kernel_access import buffer_access
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.work import count
from tests.tir.instruction_programs import (
    instruction_means_its_description,
    instruction_runs_as_it_says,
    product_of_tiles,
    registered,
    rows_of_words,
    tensorized,
)


@pytest.fixture(autouse=True)
def _a_machine() -> None:
    registered("mma_2x2")


def instruction_of(func: tir.PrimFunc) -> Instruction:
    return next(n for n in walk(func.body) if isinstance(n, Instruction))


def kernel_of(func: tir.PrimFunc) -> tir.PrimFunc:
    return next(f for _, f in lower(func, "cpu").items() if not f.attrs.get("host"))


def test_words_of_bytes() -> None:
    instruction_means_its_description()
    instruction_runs_as_it_says()


@pytest.mark.parametrize("mode", ["exact", "field", "bound", "special", "floats", "order"])
def test_every_mode_of_the_oracle_runs_the_description(mode: str) -> None:
    func, sch = product_of_tiles("mma_2x2")
    for after in (sch.func, lower(sch.func, "cpu")):
        verdict = reference.check(func, after, modes=(mode, "shadow"))
        assert verdict, verdict
        assert mode in str(verdict)


@pytest.mark.parametrize("mode", ["fast", "slow"])
def test_both_interpreters(mode: str) -> None:
    _, sch = product_of_tiles("mma_2x2")
    a, b = np.random.default_rng(1).random((2, 4, 4), "float32")
    c = np.zeros((4, 4), "float32")
    reference.tir.run(sch.func, a, b, c, mode=mode)
    np.testing.assert_allclose(c, a @ b, rtol=1e-6)
    flat = np.zeros(16, "float32")
    reference.kernel.run(lower(sch.func, "cpu"), a.reshape(-1), b.reshape(-1), flat, mode=mode)
    np.testing.assert_array_equal(flat.reshape(4, 4), c)


def test_a_wrong_description_is_a_difference() -> None:
    func, sch = product_of_tiles("mma_2x2")
    text = sch.func.script().replace("* B", "+ B")
    assert not reference.check(func, from_source(text))


def test_text_reads_back_at_both_levels() -> None:
    _, sch = product_of_tiles("mma_2x2")
    kernel = kernel_of(sch.func)
    for func in (sch.func, kernel):
        back = from_source(func.script())
        assert structural_equal(back, func)
        assert structural_hash(back) == structural_hash(func)
    other = from_source(kernel.script().replace('"mma_2x2"', '"mma_3x3"'))
    assert not structural_equal(other, kernel)


def test_analyses_read_what_it_reads() -> None:
    _, sch = product_of_tiles("mma_2x2")
    kernel = kernel_of(sch.func)
    a, b, c = (next(p for p in kernel.buffers if p.name == n) for n in "ABC")
    touched = effects(instruction_of(kernel))
    assert {t.buffer for t in touched.reads} == {a, b, c} and {t.buffer for t in touched.writes} == {c}
    assert buffer_access(kernel.body) == {a: "r", b: "r", c: "w"}  # the init comes first
    assert buffer_access(instruction_of(kernel)) == {a: "r", b: "r", c: "rw"}
    plain = product_of_tiles("mma_2x2")[0]
    assert count(kernel).flops == count(kernel_of(plain)).flops


def test_what_is_only_written_is_not_read() -> None:
    places = "T.tile(C[0], C[1])"
    func = from_source(
        "@T.prim_func(lowered=True)\ndef main(C: T.Buffer((4,))):\n"
        f'    with T.instruction("fill", {places}):\n        for i in range(4):\n            C[i] = 1.0\n'
    )
    assert buffer_access(func.body) == {func.buffers[0]: "w"}
    assert not effects(func.body).reads


def test_the_distance_of_places_is_the_stride_on_every_level() -> None:
    _, sch = product_of_tiles("mma_2x2", 6)
    tiles = instruction_of(kernel_of(sch.func)).tiles
    for tile in tiles:
        first, row, column = (place.indices[0] for place in tile.places)
        assert [_distance(p, first) for p in (row, column)] == [6, 1]


def _distance(a: object, b: object) -> int:
    from minitvm.arith import Analyzer

    return int(Analyzer().simplify(a - b).value)  # type: ignore[operator,attr-defined]


def test_a_language_without_it_refuses_it_by_name() -> None:
    _, sch = product_of_tiles("mma_2x2")
    for generator, dialect in ((numba_cpu, "numba-cpu"), (opencl, "opencl")):
        with pytest.raises(Unsupported, match="mma_2x2 has no spelling in " + dialect) as refused:
            generator.generate(kernel_of(sch.func))
        assert "an instruction of nowhere" in str(refused.value)
    text = kernel_of(sch.func).script().replace("mma_2x2", "unheard_of")
    with pytest.raises(Unsupported, match="no intrinsic has this name"):
        numba_cpu.generate(from_source(text))


def test_a_spelling_is_found_by_its_name() -> None:
    registered("mma_2x2", ("numba-cpu",))
    _, sch = product_of_tiles("mma_2x2")
    assert "# mma_2x2" in numba_cpu.generate(kernel_of(sch.func))


def test_an_intrinsic_needs_an_implementation_or_an_instruction() -> None:
    with pytest.raises(InputError, match="neither an implementation nor an instruction"):
        TensorIntrin.register("nothing", registered("mma_2x2").desc)


def test_places_of_a_tile_are_of_one_buffer() -> None:
    a, b = tir.Buffer("A", (4,)), tir.Buffer("B", (4,))
    with pytest.raises(TypeMismatch, match="elements of one buffer"):
        Tile((a[0], b[0]))


def test_layouts_that_do_not_fit_are_refused_where_it_is_put_in() -> None:
    func = rows_of_words()
    sch = tir.Schedule(func)
    i, j, k = sch.get_loops("C")
    j_0, j_1 = sch.split(j, [None, 16])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(i, j_0, k_0, j_1, k_1)
    sch.decompose_reduction("C", k_0)
    sch.transform_layout("C_update", ("read", 2), lambda a, b, c, d: (a, b, d, c))
    with pytest.raises(tir.ScheduleError):
        sch.tensorize(j_1, "dot_4x16_u8i8i32")


def test_loops_are_unrolled_around_it() -> None:
    _, sch = product_of_tiles("mma_2x2")
    sch.unroll(sch.get_loops("C_update_o")[-1])
    kernel = kernel_of(sch.func)
    assert sum(isinstance(n, Instruction) for n in walk(kernel.body)) == 2


def test_the_intrinsic_of_bytes_checks_itself() -> None:
    intrin = TensorIntrin.get("dot_4x16_u8i8i32")
    assert intrin is not None and intrin.check()
    assert "T.instruction" in tensorized(rows_of_words()).func.script()


def test_an_asynchronous_copy_is_a_plain_one() -> None:
    a = tir.Buffer("A", (4,))
    with pytest.raises(TypeMismatch, match="without arithmetic"):
        Async(BufferStore(a, a[0] + 1.0, (const(1),)))
    with pytest.raises(TypeMismatch, match="without arithmetic"):
        Async(BufferStore(a, call("if_then_else", a[2] > 0.0, a[0], 0.0), (const(1),)))
    with pytest.raises(TypeMismatch, match="without arithmetic"):
        Async(BufferStore(a, call("if_then_else", const(1) > const(0), a[0], 1.0), (const(1),)))
    Async(BufferStore(a, call("if_then_else", const(1) > const(0), a[0], 0.0), (const(1),)))
