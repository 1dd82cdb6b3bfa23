"""Kernels that are equal except for some integers become one function, whose parameters are these integers.

    define void @kernel(ptr %1) {              define void @kernel7(i64 %shared.0, ptr %1) {
      ...                                        ...
      %15 = icmp eq i64 %14, 248                 %15 = icmp eq i64 %14, %shared.0

For example, 22 convolutions of densenet121 differ in the number of input channels, which is the end of a loop and a
factor in an address. One function of 1 KB computes all of them.

Legal: the function with a kernel's integers as arguments is, operand by operand, that kernel. Kernels are compared
after they are optimised, so LLVM has used all sizes that it knew. Divisions keep their constants, because they are slow
without them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SYMBOL = "kernel"  # the name of the function in the text of each kernel
_MOST = 8  # parameters of a function; kernels with more differences stay apart
_HEAD = f"@{SYMBOL}("
_NAME = r'%[\w.$"-]+'
# An integer that may become a parameter: the second operand of these instructions, or the last one.
_SITE = re.compile(
    rf"(?: = (?:add|sub|mul|icmp \w+)(?: \w+)* i(32|64) {_NAME}, "
    rf"| = getelementptr(?: \w+)* \w+, ptr {_NAME}, i(32|64) )(-?[0-9]+)"
)


@dataclass(frozen=True, slots=True)
class SharedCall:
    """The function that computes a kernel, and its first arguments: integers as (bits, value)."""

    symbol: str
    numbers: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """The text of a kernel in the parts between the integers that may become parameters, and their numbers of bits."""

    parts: tuple[str, ...]
    bits: tuple[int, ...]


def share(texts: Sequence[str]) -> tuple[list[str], list[SharedCall]]:
    """Return the texts of LLVM modules with the functions for all kernels, and the call of each kernel.

    Each of `texts` is an optimised module that defines a kernel as the function `SYMBOL`.
    """
    groups: dict[_Skeleton, list[int]] = {}
    numbers: list[list[int]] = []
    for index, text in enumerate(texts):
        skeleton, values = _split(text)
        groups.setdefault(skeleton, []).append(index)
        numbers.append(values)
    functions: list[str] = []
    calls: dict[int, SharedCall] = {}
    for skeleton, alike in groups.items():
        shares = len(_parameters(skeleton, [numbers[k] for k in alike])) <= _MOST
        for members in [alike] if shares else [[k] for k in alike]:
            values_of = [numbers[k] for k in members]
            parameters = _parameters(skeleton, values_of)
            symbol = f"{SYMBOL}{len(functions)}"
            functions.append(_function(skeleton, values_of, parameters, symbol))
            for position, k in enumerate(members, start=1):
                calls[k] = SharedCall(symbol, tuple((column[0], column[position]) for column in parameters))
    return functions, [calls[k] for k in range(len(texts))]


def _split(text: str) -> tuple[_Skeleton, list[int]]:
    """Return the skeleton of a kernel, and the integers between its parts."""
    parts, bits, values, start = [], [], [], 0
    begin = text.index(_HEAD)
    for site in _SITE.finditer(text, begin, text.index("\n}\n", begin)):
        parts.append(text[start : site.start(3)])
        bits.append(int(site[1] or site[2]))
        values.append(int(site[3]))
        start = site.end()
    return _Skeleton((*parts, text[start:]), tuple(bits)), values


def _columns(skeleton: _Skeleton, numbers: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return, for each integer of a skeleton, its bits and its value in each kernel."""
    return list(zip(skeleton.bits, *numbers, strict=True))


def _parameters(skeleton: _Skeleton, numbers: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the columns whose values differ, each once."""
    return list(dict.fromkeys(column for column in _columns(skeleton, numbers) if len(set(column[1:])) > 1))


def _function(
    skeleton: _Skeleton, numbers: Sequence[Sequence[int]], parameters: Sequence[tuple[int, ...]], symbol: str
) -> str:
    """Return the text of a function with these columns as parameters."""
    names = {column: f"%shared.{k}" for k, column in enumerate(parameters)}
    operands = [names.get(column, str(column[1])) for column in _columns(skeleton, numbers)]
    text = "".join(piece for pair in zip(skeleton.parts, [*operands, ""], strict=True) for piece in pair)
    added = "".join(f"i{column[0]} {name}, " for column, name in names.items())
    return text.replace(_HEAD, f"@{symbol}({added}")
