"""Tensor intrinsics: the work of one machine instruction, as a description (loops) and an implementation.

    TensorIntrin.register("dot_4x_i8i8i32", desc, impl)
    sch.tensorize(loop, "dot_4x_i8i8i32")

Both are functions over the same buffers, in TVM's form: the root block declares the regions that it reads and writes,
and its body is the computation. The body of the description consists of plain loops, which `tensorize` looks for. The
body of the implementation may be anything that the machine has: calls, or plain loops again. If the root block has an
init, it is the start of the reduction.

Instead of loops, the implementation may be one instruction of the machine, a `tir.Instruction`:

    TensorIntrin.register("dot_4x16_u8i8i32", desc, instruction={"numba-cpu": spell})

The instruction contains the description, which interpreters run and analyses read. `spell(emitter, stmt)` writes the
instruction in the language of a code generator (`codegen.emitter.Emitter.dialect`); it is a function, or a string
"module:function". A code generator for which there is no such function refuses the instruction with an error that names
it.

The intrinsics of a machine are in its folder of `minitvm/machines`, and those of TVM in
`minitvm/compat/tvm/tensor_intrin`. You can use them by name without importing anything: `get` loads them through the
part "intrinsics" of each back end.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ... import doors
from ...absent import absent
from ...backend import own
from ...errors import InputError, InternalError, nearest
from ...expr import find, structural_equal, walk
from ..nodes import Block, BlockRealize, Buffer, BufferLoad, BufferStore, Instruction, PrimFunc, root_block
from .instructions import as_instruction

Spelling = Callable[[Any, Instruction], None] | str


@dataclass(frozen=True, slots=True, repr=False)
class TensorIntrin:
    """A tensor intrinsic for `tensorize`: the loops that it replaces (`desc`), and what replaces them (`impl`).

    Both are functions with the same parameters.

    A parameter of `impl` may declare its strides and offset as variables, which take the values of the actual buffer,
    or as constants, which must then match the actual buffer. If the implementation is a single instruction,
    `instruction` maps each dialect of a code generator to the function that writes the instruction.
    """

    name: str
    desc: PrimFunc
    impl: PrimFunc
    instruction: Mapping[str, Spelling] = field(default_factory=dict)

    KNOWN: ClassVar[dict[str, TensorIntrin]] = {}

    @staticmethod
    def register(
        name: str, desc: PrimFunc, impl: PrimFunc | None = None, override: bool = False, *, verify: bool = False,
        instruction: Mapping[str, Spelling] | None = None, together: int = 1,
    ) -> TensorIntrin:  # fmt: skip
        """Register an intrinsic for `tensorize`.

        If you pass `instruction` but no implementation, the instruction itself is the implementation, and `together`
        neighbouring threads execute it jointly. Raises `InputError` if the description and the implementation do not
        fit together, or if the name is taken (unless `override` is set). With `verify`, raises `InternalError` if the
        oracle finds that they compute different results on a tile of larger buffers.
        """
        if name in TensorIntrin.KNOWN and not override:
            raise InputError(f"there is a tensor intrinsic {name!r} already\n  try:    override=True")
        if impl is None:
            if instruction is None:
                raise InputError(
                    f"{name} has neither an implementation nor an instruction\n"
                    "  try:    impl, a function with the parameters of the description\n"
                    '  try:    instruction={"numba-cpu": spell}, where a machine has it'
                )
            _check_parameters(name, desc, desc)
            impl = as_instruction(name, desc, together)
        _check_parameters(name, desc, impl)
        intrin = TensorIntrin(name, desc, impl, dict(instruction or {}))
        if verify:
            verdict = intrin.check()
            if not verdict:
                raise InternalError(f"{name}: description and implementation differ\n{verdict}")
        TensorIntrin.KNOWN[name] = intrin
        return intrin

    def spelling(self, dialect: str) -> Callable[[Any, Instruction], None] | None:
        """Return the function that writes the instruction in a dialect; None if the dialect does not have the
        instruction.
        """
        found = self.instruction.get(dialect)
        if isinstance(found, str):
            module, _, name = found.partition(":")
            found = getattr(importlib.import_module(module), name)
        return found

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """Return the intrinsic called `name`. If there is none, raise an `InputError` that suggests similar names, or
        return None if `allow_missing` is set.
        """
        if name not in TensorIntrin.KNOWN:
            for backend in own():
                register_named = backend.part("intrinsics")
                if register_named is not None:
                    register_named(name)
            importlib.import_module(doors.INTRINSICS).register_named(name)
        if name in TensorIntrin.KNOWN or allow_missing:
            return TensorIntrin.KNOWN.get(name)
        importlib.import_module(doors.INTRINSICS).require_known_dtypes(name)
        raise InputError(f"no tensor intrinsic {name!r}; {nearest(name, list(TensorIntrin.KNOWN))}")

    def __repr__(self) -> str:
        return repr(self.name)

    @property
    def pattern(self) -> Block:
        """The block of the description that `tensorize` looks for."""
        return root_block(self.desc)

    def check(self, **options: Any) -> Any:
        """Check that the implementation computes the same as the description; return the `Verdict` of the reference
        interpreter.

        Both run on a tile inside larger buffers, so that wrong strides and offsets are noticed. `options` are those of
        `reference.check`.
        """
        from ..schedule.intrinsics import check_intrinsic

        return check_intrinsic(self, **options)


def _check_parameters(name: str, desc: PrimFunc, impl: PrimFunc) -> None:
    if len(desc.params) != len(impl.params):
        counts = f"{len(desc.params)} and {len(impl.params)}"
        raise InputError(f"{name}: description and implementation have {counts} parameters")
    for a, b in zip(desc.params, impl.params, strict=False):
        if isinstance(a, Buffer) and isinstance(b, Buffer):
            if a.dtype != b.dtype or a.scope != b.scope or not structural_equal(a.shape, b.shape, map_free_vars=True):
                raise InputError(f"{name}: the parameters {a} and {b} differ in shape, dtype or scope")
        elif isinstance(a, Buffer) or isinstance(b, Buffer) or a.dtype != b.dtype:
            raise InputError(f"{name}: the parameters {a.name} and {b.name} differ")
    for what, func in (("description", desc), ("implementation", impl)):
        if not isinstance(func.body, BlockRealize):
            raise InputError(f"{name}: the {what} is lowered already; wanted a root block")
    own = [b.name for b in root_block(desc).alloc_buffers]
    accessed = [n.buffer for n in find(desc.body, BufferLoad | BufferStore)]
    own += [b.name for b in dict.fromkeys(accessed) if b not in desc.params]
    if own or root_block(desc).match_buffers:
        raise InputError(f"{name}: the description has buffers of its own, {', '.join(own)}; wanted parameters only")
    if root_block(impl).init is not None and root_block(desc).init is None:
        raise InputError(f"{name}: the implementation has an init, the description has none")


_OF_TVM = ("arm_cpu", "cuda", "dot_product_common", "hexagon", "rocm", "x86")  # modules with TVM's names


def __getattr__(name: str) -> Any:
    if name in _OF_TVM:
        return importlib.import_module(f"{__name__}.{name}")
    raise absent(__name__, name, ["TensorIntrin", *_OF_TVM])


__all__ = ["TensorIntrin"]
