"""The same step in both: how outcomes are told apart, and that the fuzzer finds by itself what is known to be wrong."""

from __future__ import annotations

import dataclasses

import pytest

from minitvm.compat.tvm.bridge import RealTVM
from minitvm.script import tir as T
from minitvm.tir.schedule import PRIMITIVES
from minitvm.tir.schedule.handles import BlockRV, LoopRV

from .fuzz_tvm import Finding, Journal, fuzz, hunt, summary
from .tvm_calls import CALLS, block_of, loop_of
from .tvm_installed import needs_tvm, real  # noqa: F401 - a fixture
from .tvm_known import KNOWN
from .tvm_pair import AGREE, BOTH_REFUSE, OUR_FAULTS, TVM_CRASHES, TVM_WRONG, WE_ARE_WRONG, Pair, runs


@T.prim_func
def softened(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), D: T.Buffer((4, 4), "float32")):
    C = T.alloc_buffer((4, 4), "float32")
    for i, j, k in T.grid(4, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(4, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.exp(C[vi, vj])


def block(pair: Pair, name: str) -> BlockRV:
    """The handle of a block that nobody has asked for yet."""
    return next(block_of(b) for b in pair.ours.state.tree().blocks.values() if b.block.name == name)


def first_loop(pair: Pair) -> LoopRV:
    """The handle of the program's first loop."""
    return loop_of(next(iter(pair.ours.state.tree().loops.values())))


@needs_tvm
def test_both_accept(real: RealTVM) -> None:  # noqa: F811
    pair = Pair(softened, real)
    outcome = pair.step("split", {"loop": first_loop(pair), "factors": [None, 2]})
    assert outcome.kind == AGREE
    assert outcome.same_text
    assert [step.method for step in pair.steps] == ["get_sblock", "get_loops", "split"]


@needs_tvm
def test_both_refuse(real: RealTVM) -> None:  # noqa: F811
    pair = Pair(softened, real)
    outcome = pair.step("compute_inline", {"block": block(pair, "D")})
    assert (outcome.kind, outcome.key) == (BOTH_REFUSE, "not_output")


@needs_tvm
def test_a_miscompile_of_tvm_is_told(real: RealTVM) -> None:  # noqa: F811
    pair = Pair(softened, real)
    outcome = pair.step(
        "fuse_reduction_epilogue", {"reduction_block": block(pair, "C"), "epilogue_block": block(pair, "D")}
    )
    assert outcome.signature == (TVM_WRONG, "fuse_reduction_epilogue", "the programs differ, epilogue exp")
    assert "sch.fuse_reduction_epilogue(reduction_block=b0, epilogue_block=b1)" in pair.python()


@needs_tvm
def test_a_miscompile_of_ours_would_be_told(real: RealTVM, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A planted fault: a split that forgets the last iterations."""
    split = PRIMITIVES["split"]
    right = split.function

    def wrong(state: object, loop: object, factors: object, *more: object, **options: object) -> object:
        return right(state, loop, [2, 1], *more, **options)

    monkeypatch.setitem(PRIMITIVES, "split", dataclasses.replace(split, function=wrong))
    pair = Pair(softened, real)
    outcome = pair.step("split", {"loop": first_loop(pair), "factors": [None, 2]})
    assert outcome.kind == WE_ARE_WRONG


@needs_tvm
def test_a_crash_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    with RealTVM() as real:  # noqa: F811
        pair = Pair(softened, real)
        monkeypatch.setattr(pair, "_call", lambda step: real._ask("crash"))
        outcome = pair.step("compute_inline", {"block": block(pair, "C")})
        assert (outcome.kind, outcome.key) == (TVM_CRASHES, "SIGABRT")


def test_a_program_without_a_meaning_is_not_compared() -> None:
    @T.prim_func
    def reads_too_early(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((4,), "float32")
        for i in range(4):
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                C[vi] = B[vi] + A[vi]

    assert not runs(reads_too_early)
    assert runs(softened)


@needs_tvm
def test_some_fuzzing_has_no_fault_of_ours(real: RealTVM) -> None:  # noqa: F811
    """And it takes steps that both accept: a fuzzer whose every call is refused finds nothing."""
    journal = Journal(KNOWN)
    found = hunt(real, journal, ("split", "reorder", "fuse", "cache_read", "compute_at", "unroll"), 40, number=1)
    assert found is None or found.outcome.kind not in OUR_FAULTS, found.text
    assert sum(n for (kind, _, _), n in journal.counts.items() if kind == AGREE) > 20


@pytest.mark.full
@needs_tvm
def test_the_fuzzer_finds_the_known_miscompile(real: RealTVM) -> None:  # noqa: F811
    """TVM 0.27 moves an exp after a matrix product into every update of the sum. Nothing points the fuzzer there.

    All its primitives are tried on all its programs; only what is known besides is not shrunk on the way.
    """
    wanted = (TVM_WRONG, "fuse_reduction_epilogue", "the programs differ, epilogue exp")
    assert wanted in KNOWN
    besides = KNOWN.keys() - {wanted}

    def is_it(finding: Finding) -> bool:
        return finding.outcome.signature == wanted

    journal = fuzz(real, 600, names=tuple(CALLS), number=2026, until=is_it, tell=lambda text: None, known=besides)
    assert wanted in journal.findings, summary(journal)
    found = journal.findings[wanted]
    text = found.text
    assert "T.exp(" in text
    assert text.count("T.sblock(") == 2, text  # the sum and the exp, and nothing else
    assert [step.method for step in found.steps if not step.method.startswith("get_")] == ["fuse_reduction_epilogue"]
    assert len(text.splitlines()) < 40
