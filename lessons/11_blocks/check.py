"""Asks the learner's tile what it claims, and whether that is true, and puts an instruction in its place."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require, yours
from minitvm import reference, tir
from minitvm.errors import InputError, MinitvmError, ScheduleError, VerificationError
from minitvm.expr import Node, walk
from minitvm.script import tir as T
from minitvm.tir.nodes import BlockRealize, BufferStore, For
from minitvm.tir.verifier import verify


def plain(m: int, n: int, k: int) -> tir.PrimFunc:
    """The product in single steps."""

    @T.prim_func
    def product(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]

    return product


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest sizes for which something is wrong."""
    count = st.integers(1, 3)

    @cases(25, rows=count, columns=count, depth=count, t=st.integers(1, 3))
    def is_the_product_in_tiles(rows: int, columns: int, depth: int, t: int) -> None:
        m, n, k = rows * t, columns * t, depth * t
        case = f"in_tiles(m={m}, n={n}, k={k}, t={t})"
        answer = written(module, case, m, n, k, t)
        is_one_tile(case, answer, t)
        says_what_it_touches(case, answer, (rows, columns, depth), t)
        try:
            verdict = reference.check(plain(m, n, k), answer, modes=("exact", "shadow"))
        except InputError as error:
            raise AssertionError(f"{case} has other parameters than the plain product:\n{error}") from None
        require(bool(verdict), f"{case} is not the product, by the mode {verdict.mode!r}:\n{yours(verdict)}")

    case = "in_tiles(m=8, n=8, k=8, t=4)"
    answer = written(module, case, 8, 8, 8, 4)
    is_one_tile(case, answer, 4)
    sch = tir.Schedule(answer, error_render_level="fast")
    try:
        # The instruction's own loops are in the order of its iterators.
        step = block_of(answer.body, "step")
        loops = {sch.get(loop).var: loop for loop in sch.get_loops("step")}
        if step is not None and all(value in loops for value in step.iter_values):
            sch.reorder(*(loops[value] for value in step.iter_values))  # type: ignore[index]
        sch.tensorize("tile", "matmul_4x4x4_f32")
    except ScheduleError as error:
        told = "\n".join(line for line in str(error).splitlines() if re.match(r" +(wanted|found):", line))
        message = "an instruction for the product of 4 x 4 x 4 cannot take the place of the block tile"
        raise AssertionError(f"{case}: {message}\n{told}") from None
    verdict = reference.check(plain(8, 8, 8), sch.func)
    require(bool(verdict), f"{case}, with the instruction in place of the tile:\n{yours(verdict)}")


def written(module: ModuleType, case: str, m: int, n: int, k: int, t: int) -> tir.PrimFunc:
    """The learner's program, which the parser and the verifier accept."""
    try:
        answer = attempt(case, module.in_tiles, m, n, k, t)
    except MinitvmError as error:
        raise AssertionError(f"{case} is no program that the parser accepts:\n{error}") from None
    require(isinstance(answer, tir.PrimFunc), f"{case} returned {type(answer).__name__}, wanted a PrimFunc")
    tile = block_of(answer.body, "tile")
    if tile is not None:
        require(
            tile.block.init is not None, f"{case}: tile has no init; wanted one (`with T.init():`) that sets C to 0"
        )
    try:
        verify(answer)
    except VerificationError as error:
        told = "\n".join(str(error).splitlines()[-2:])
        raise AssertionError(f"{case}: what a block says is not what it does\n{told}") from None
    return answer


def block_of(node: Node, name: str) -> BlockRealize | None:
    """The block of this name beneath a node, with the values of its iterators."""
    return next((one for one in walk(node) if isinstance(one, BlockRealize) and one.block.name == name), None)


def is_one_tile(case: str, answer: tir.PrimFunc, t: int) -> None:
    """The block "step" is in "tile", inside three loops over t, and nothing outside of "tile" stores."""
    tile = block_of(answer.body, "tile")
    if tile is None:
        return  # which another part of the check says
    within = {id(one) for one in walk(tile)}
    for store in walk(answer.body):
        inside = not isinstance(store, BufferStore) or id(store) in within
        require(inside, f"{case}: `{store}` is outside of the block tile; wanted all of the computation in it")
    step = block_of(tile.block.body, "step")
    if step is None:
        raise AssertionError(f'{case}: the body of tile has no block "step"; wanted one that multiplies')
    require(step.block.init is None, f"{case}: step has an init; wanted none: it would start the sum again for each vr")
    iterators = [(int(it.dom.extent), it.kind) for it in step.block.iter_vars]
    expected = [(t, kind) for kind in "SSR"]
    require(iterators == expected, f"{case}: the iterators of step are {told(iterators)}\nwanted {told(expected)}")
    around = [one for one in walk(tile.block.body) if isinstance(one, For) and any(each is step for each in walk(one))]
    extents = [str(loop.extent) for loop in around]
    require(
        extents == [str(t)] * 3,
        f"{case}: around step in tile are loops over {', '.join(extents) or 'nothing'}; wanted {t}, {t} and {t}",
    )


def says_what_it_touches(case: str, answer: tir.PrimFunc, counts: tuple[int, ...], t: int) -> None:
    """The signature of the block "tile": its iterators, and regions of t x t."""
    sch = tir.Schedule(answer)
    try:
        block: Any = sch.get(sch.get_block("tile"))
    except ScheduleError as error:
        raise AssertionError(f"{case}: {error}") from None
    iterators = [(int(it.dom.extent), it.kind) for it in block.iter_vars]
    expected = list(zip(counts, "SSR"))
    require(iterators == expected, f"{case}: the iterators of tile are {told(iterators)}\nwanted {told(expected)}")
    for verb, regions, names in (("reads", block.reads, {"A", "B"}), ("writes", block.writes, {"C"})):
        declared = {region.buffer.name for region in regions}
        require(
            names <= declared <= names | {"C"},
            f"{case}: tile {verb} {', '.join(sorted(declared)) or 'nothing'}, wanted {', '.join(sorted(names))}",
        )
        for region in regions:
            shape = [str(at.extent) for at in region.region]
            require(
                shape == [str(t)] * 2,
                f"{case}: tile says that it {verb} {' x '.join(shape)} elements of {region.buffer.name}, "
                f"wanted {t} x {t}",
            )


def told(iterators: list[tuple[int, str]]) -> str:
    """`2 values S, 3 values R`."""
    return ", ".join(f"{extent} value{'s' if extent > 1 else ''} {kind}" for extent, kind in iterators)
