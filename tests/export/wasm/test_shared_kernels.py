"""Kernels that differ in integers are one function in a WebAssembly module, and compute what they did apart."""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.export.wasm import compile as wasm_compile
from minitvm.export.wasm.shared_kernels import SharedCall, share
from minitvm.graph import Graph, GraphBuilder
from tests.fewer import examples

from .node import Exported

# Instructions of a kernel: the first ones may have a parameter instead of the number.
PARAMETERS = (
    "add nsw i64 %n, {}", "sub i32 %m, {}", "mul nuw nsw i64 %n, {}", "icmp slt i64 %n, {}",
    "getelementptr inbounds i8, ptr %a, i32 {}", "getelementptr float, ptr %a, i64 {}",
)  # fmt: skip
FIXED = (
    "sdiv i64 %n, {}",
    "shl i64 %n, {}",
    "call i64 @llvm.smax.i64(i64 %n, i64 {})",
    "select i1 true, i64 {}, i64 %n",
)


def kernel_of(lines: Sequence[str], numbers: Sequence[int]) -> str:
    """The text of a kernel with these instructions and numbers, and of another function with the same instructions."""
    body = [f"  %v.{k} = {line.format(x)}" for k, (line, x) in enumerate(zip(lines, numbers, strict=True))]
    begin = ["  %n = load i64, ptr %a, align 8", "  %m = trunc i64 %n to i32"]
    parts = [
        "declare i64 @llvm.smax.i64(i64, i64)", "",
        "define void @kernel(ptr readonly captures(none) %a) #0 {", *begin, *body, "  ret void", "}", "",
        "define internal i64 @helper(i64 %n) {", "  %v = add i64 %n, 7", "  ret i64 %v", "}", "",
        "attributes #0 = { nounwind memory(readwrite) }", "",
    ]  # fmt: skip
    return "\n".join(parts)


@st.composite
def kernels(draw: st.DrawFn) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Kernels with few lists of instructions, and with few numbers, so that some are alike."""
    bodies = draw(
        st.lists(st.lists(st.sampled_from(PARAMETERS + FIXED), max_size=8).map(tuple), min_size=1, max_size=3)
    )
    number = st.sampled_from([1, 2, 3, 40, 1024])
    return [
        (body, tuple(draw(st.lists(number, min_size=len(body), max_size=len(body)))))
        for body in draw(st.lists(st.sampled_from(bodies), min_size=1, max_size=8))
    ]


def as_called(functions: Sequence[str], call: SharedCall) -> str:
    """The text of the function that a call names, with the arguments in the places of the parameters."""
    (text,) = (text for text in functions if f"@{call.symbol}(" in text)
    head = "".join(f"i{bits} %shared.{k}, " for k, (bits, _) in enumerate(call.numbers))
    text = text.replace(f"@{call.symbol}({head}", "@kernel(")
    for k, (_, value) in enumerate(call.numbers):  # there are fewer than ten
        text = text.replace(f"%shared.{k}", str(value))
    return text


@examples(60, 1500)
@given(kernels())
def test_a_function_with_its_arguments_is_the_kernel(drawn: list[tuple[tuple[str, ...], tuple[int, ...]]]) -> None:
    texts = [kernel_of(lines, numbers) for lines, numbers in drawn]
    functions, calls = share(texts)
    for function in functions:
        llvm.parse_assembly(function).verify()
    assert [as_called(functions, call) for call in calls] == texts
    alike = {(lines, *(x for line, x in zip(lines, numbers, strict=True) if line in FIXED)) for lines, numbers in drawn}
    assert len(functions) == len({call.symbol for call in calls}) == len(alike)


def test_kernels_with_many_differences_stay_apart() -> None:
    lines = [PARAMETERS[0]] * 9
    texts = [kernel_of(lines, [start + k * k for k in range(9)]) for start in (100, 300)]
    functions, calls = share(texts)
    assert len(functions) == 2
    assert [as_called(functions, call) for call in calls] == texts
    same = share([kernel_of(lines, [x] * 9) for x in (1, 2)])  # one parameter: all numbers differ alike
    assert len(same[0]) == 1
    assert [call.numbers for call in same[1]] == [((64, 1),), ((64, 2),)]


def convolutions(channels: Sequence[int]) -> Graph:
    """Convolutions whose inputs have different numbers of channels."""
    rng, b = np.random.default_rng(0), GraphBuilder("convolutions")
    x, results = b.input("x", (1, max(channels), 4, 4)), []
    for count in channels:
        weights = b.constant(rng.standard_normal((16, count, 1, 1)).astype("float32"))
        part = b.op("strided_slice", x, begin=(0, 0, 0, 0), end=(1, count, 4, 4))
        results.append(b.op("nn.conv2d", part, weights))
    return b.build(results)


def test_layers_of_different_sizes_are_one_function(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = []

    def recorded(texts: Sequence[str]) -> tuple[list[str], list[SharedCall]]:
        shared.append(share(texts))
        return shared[-1]

    monkeypatch.setattr(wasm_compile, "share", recorded)
    graph = convolutions((32, 48, 64, 80))
    exported.agree(graph, {"x": np.random.default_rng(1).standard_normal((1, 80, 4, 4)).astype("float32")})
    ((functions, calls),) = shared
    assert len(functions) <= len(calls) - 3
    assert any(len({c.numbers for c in calls if c.symbol == call.symbol}) > 2 for call in calls)
