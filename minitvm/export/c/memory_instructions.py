"""The instructions of x86 that access a part of a vector's lanes, as branches of C functions.

    #if defined(__AVX512VL__)
        return (f32x8)_mm256_maskz_loadu_epi32((__mmask8)(127), p);
    #elif defined(__AVX2__)
        return (f32x8)_mm256_maskload_epi32((const int *)p, (__m256i)(first_b1x8(7)));
    #else
        ...  lane by lane
    #endif

Instructions on integers serve floats too: they move bits. A mask has lanes of int32, 0 or -1, of which AVX2 reads the
signs. AVX-512 reads a mask as bits. Surplus lanes of a vector (`types.physical`) are never accessed: masks leave them
out, since they have arbitrary contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...machines.simd.vectors.lanes import B1, ELEMENTS, I32, Element
from .types import physical

# The address sanitizer does not see the accesses of these instructions.
_WATCHED = " && !defined(__SANITIZE_ADDRESS__)"
_AVX512F, _AVX512VL, _AVX512BW = (f"defined(__AVX512{name}__)" for name in ("F", "VL", "BW"))
_AVX2 = "defined(__AVX2__)"
_POINTEES = {32: "int", 64: "long long"}  # in the types of AVX2's functions


@dataclass(frozen=True, slots=True)
class Selected:
    """The lanes that an instruction accesses: those of the mask `m`, the first `n`, or all.

    `form` is "mask", "first" or "all". `lanes` are those of the vector in the program.
    """

    form: str
    lanes: int

    def bits(self) -> str:
        """Return the text of the mask as an integer, for AVX-512."""
        every = (1 << self.lanes) - 1
        if self.form == "all":
            return f"{every}"
        if self.form == "first":
            return f"n <= 0 ? 0 : n >= {self.lanes} ? {every} : (1 << n) - 1"
        size = 4 * physical(self.lanes)
        test = f"{_prefix(size)}_test_epi32_mask(({_register(size)})m, ({_register(size)})m)"
        return test if self.lanes == physical(self.lanes) else f"{test} & {every}"

    def words(self, library: Any, bits: int) -> str:
        """Return the text of the mask as a vector with lanes of so many bits, for AVX2."""
        lanes = physical(self.lanes)
        first = library.use("first", B1, lanes)
        mask = {"all": f"{first}({self.lanes})", "first": f"{first}(n < {self.lanes} ? n : {self.lanes})", "mask": "m"}
        text = mask[self.form]
        if self.form == "mask" and self.lanes != lanes:
            text = f"m & {first}({self.lanes})"
        if bits == 64:
            text = f"__builtin_convertvector({text}, {library.type(ELEMENTS['i64'], lanes)})"
        return f"({_register(lanes * bits // 8)})({text})"


def load(library: Any, kind: Element, selected: Selected) -> list[tuple[str, str]]:
    """Return branches (condition, statement) that return the selected lanes at `p`, and zeros."""
    t = library.type(kind, selected.lanes)
    return [
        (
            condition,
            f"return ({t}){prefix}_maskz_loadu_epi{kind.bits}({mask}, p);"
            if is_mask
            else f"return ({t}){prefix}_maskload_epi{kind.bits}((const {_POINTEES[kind.bits]} *)p, {mask});",
        )
        for condition, prefix, mask, is_mask in _forms(library, kind, selected)
    ]


def store(library: Any, kind: Element, selected: Selected) -> list[tuple[str, str]]:
    """Return branches (condition, statement) that store the selected lanes of `v` at `p`.

    AVX2's instruction takes some processors longer than a store for each piece, so it only serves masks.

    If `v` is a part of a wider vector, GCC would extract the part and store it in one instruction (VEXTRACTI32X4). That
    instruction reads or writes the lanes that are not selected too, and fails if they are in a page that is not there.
    So `v` is made a value in a register first, of which GCC knows nothing.
    """
    size = physical(selected.lanes) * kind.itemsize
    register, apart = _register(size), '__asm__("" : "+v"(v)); ' if size < 64 else ""
    return [
        (
            condition,
            f"{apart}{prefix}_mask_storeu_epi{kind.bits}(p, {mask}, ({register})v);"
            if is_mask
            else f"{prefix}_maskstore_epi{kind.bits}(({_POINTEES[kind.bits]} *)p, {mask}, ({register})v);",
        )
        for condition, prefix, mask, is_mask in _forms(library, kind, selected)
        if is_mask or selected.form != "all"
    ]


def gather(library: Any, kind: Element, selected: Selected) -> list[tuple[str, str]]:
    """Return branches (condition, statement) that return `p[i[l]]` in the selected lanes, and zeros."""
    if kind.bits < 32:
        return []
    t, size = library.type(kind, selected.lanes), physical(selected.lanes) * kind.itemsize
    zero, index = f"{_prefix(size)}_setzero_si{8 * size}()", _index(selected.lanes)
    branches = []
    for condition, prefix, mask, is_mask in _forms(library, kind, selected):
        name = f"i32gather_epi{kind.bits}"
        if is_mask:
            name = f"{prefix}_{'mask' if size == 64 else 'mmask'}_{name}"
            call = f"{name}({zero}, {mask}, {index}, p, {kind.itemsize})"
        else:
            call = f"{prefix}_mask_{name}({zero}, (const {_POINTEES[kind.bits]} *)p, {index}, {mask}, {kind.itemsize})"
        branches.append((condition, f"return ({t}){call};"))
    return branches


def scatter(library: Any, kind: Element, selected: Selected) -> list[tuple[str, str]]:
    """Return branches (condition, statement) that store the selected lanes: `p[i[l]] = v[l]`, in their order."""
    if kind.bits < 32:
        return []
    register = _register(physical(selected.lanes) * kind.itemsize)
    call = f"i32scatter_epi{kind.bits}"
    return [
        (
            condition,
            f"{prefix}_mask_{call}(p, {mask}, {_index(selected.lanes)}, ({register})v, {kind.itemsize});",
        )
        for condition, prefix, mask, is_mask in _forms(library, kind, selected)
        if is_mask
    ]


def branched(library: Any, head: str, branches: Sequence[tuple[str, str]], lines: Sequence[str]) -> str:
    """Return the definition of a function: `lines` are for processors that none of the conditions describes."""
    body = [f"    {line}" for line in lines]
    if branches:
        library.vector_headers()
        words = ["#if", *["#elif"] * (len(branches) - 1)]
        texts = [
            text
            for word, (condition, statement) in zip(words, branches, strict=True)
            for text in (f"{word} {condition}", f"    {statement}")
        ]
        body = [*texts, "#else", *body, "#endif"]
    return "\n".join([f"KERNEL_INLINE {head} {{", *body, "}"])


def _forms(library: Any, kind: Element, selected: Selected) -> list[tuple[str, str, str, bool]]:
    """Return the instructions that access a vector: (condition, prefix of the names, mask, whether it is bits)."""
    lanes = physical(selected.lanes)
    size = lanes * kind.itemsize
    if kind is B1 or size not in (16, 32, 64) or not 4 <= lanes <= 16:
        return []
    # A mask of eight lanes is a vector of 32 bytes, also where the elements have 64 bits.
    narrow = size < 64 or (selected.form == "mask" and lanes < 16)
    condition = _AVX512VL if narrow else _AVX512F
    if kind.bits < 32:
        condition = f"{_AVX512BW} && {condition}"
    number = f"(__mmask{max(8, lanes)})({selected.bits()})"
    forms = [(condition + _WATCHED, _prefix(size), number, True)]
    if kind.bits >= 32 and size < 64:
        forms.append((_AVX2 + _WATCHED, _prefix(size), selected.words(library, kind.bits), False))
    return forms


def _prefix(size: int) -> str:
    """Return the beginning of the names of functions on vectors of so many bytes."""
    return "_mm" if size == 16 else f"_mm{8 * size}"


def _register(size: int) -> str:
    """Return the type of a vector of integers with so many bytes."""
    return f"__m{8 * size}i"


def _index(lanes: int) -> str:
    """Return the text of the vector of places, which are int32."""
    return f"({_register(physical(lanes) * I32.itemsize)})i"
