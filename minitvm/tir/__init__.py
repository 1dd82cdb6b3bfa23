"""Loop programs, before and after lowering, under TVM's names, for example `tir.PrimFunc` and `tir.exp`.

Larger parts (`Schedule`, the printer, the verifier) are imported on first use, because the reference interpreters read
the nodes and must not load the compiler.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ..absent import absent
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    CommReducer,
    Div,
    DType,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
    const,
)
from . import op
from .nodes import (
    Allocate,
    Assert,
    Async,
    Block,
    BlockId,
    BlockRealize,
    Buffer,
    BufferData,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    If,
    Instruction,
    IRModule,
    KernelCall,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    PrimFunc,
    Seq,
    Stmt,
    Tile,
    While,
    root_block,
    with_root,
)
from .op import (
    abs,
    all,
    any,
    call_intrin,
    cast,
    ceildiv,
    div,
    floordiv,
    floormod,
    if_then_else,
    indexdiv,
    indexmod,
    infinity,
    max,
    max_value,
    min,
    min_value,
    reinterpret,
    select,
    truncdiv,
    truncmod,
)

if TYPE_CHECKING:
    from ..errors import ScheduleError
    from . import schedule, script, tensor_intrin, transform, verifier
    from .index_map import IndexMap
    from .meanings import register_meaning
    from .schedule import Schedule
    from .tensor_intrin import TensorIntrin
    from .verifier import verify

# TVM's other names for our nodes.
PrimExpr = Expr
SeqStmt, IfThenElse, AssertStmt, DeclBuffer = Seq, If, Assert, Allocate
SBlock, SBlockRealize = Block, BlockRealize

_DEFINED_IN = {
    "IndexMap": "minitvm.tir.index_map",
    "TensorIntrin": "minitvm.tir.tensor_intrin",
    "Schedule": "minitvm.tir.schedule",
    "ScheduleError": "minitvm.errors",
    "register_meaning": "minitvm.tir.meanings",
    "verify": "minitvm.tir.verifier",
    "BlockScope": "minitvm.tir.schedule.block_scope",
    "ScheduleState": "minitvm.tir.schedule.state",
    "StmtSRef": "minitvm.tir.schedule.block_scope",
}
_SUBMODULES = ("analysis", "schedule", "script", "stmt_functor", "tensor_intrin", "transform", "verifier")

# Modules of TVM whose names are all in this package: `from minitvm.tir.function import TensorIntrin`.
_SAME_NAMES = ("buffer", "expr", "function", "stmt")
sys.modules.update({f"{__name__}.{module}": sys.modules[__name__] for module in _SAME_NAMES})

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "Allocate", "And", "Assert", "AssertStmt", "Async", "Block", "BlockId",
    "BlockRealize", "Broadcast", "Buffer", "BufferData", "BufferLoad", "BufferRegion", "BufferStore", "Call", "Cast",
    "CommReducer", "DeclBuffer", "Div", "Evaluate", "Expr", "FloatImm", "FloorDiv", "FloorMod", "For", "ForKind",
    "IRModule", "If", "IfThenElse", "IndexMap", "Instruction", "IntImm", "IterVar", "KernelCall", "Let", "LetStmt",
    "MatchBufferRegion", "Max", "Min", "Mod", "Mul", "Not", "Or", "Prefetch", "PrimExpr", "PrimFunc", "Ramp", "Range",
    "Reduce", "SBlock", "SBlockRealize", "Schedule", "ScheduleError", "Select", "Seq", "SeqStmt", "Shuffle", "SizeVar",
    "Stmt", "StringImm", "Sub", "TensorIntrin", "Tile", "Var", "While", "abs", "all", "any", "call_intrin", "cast",
    "ceildiv", "const", "decl_buffer", "div", "floordiv", "floormod", "if_then_else", "indexdiv", "indexmod",
    "infinity", "max", "max_value", "min", "min_value", "op", "register_meaning", "reinterpret", "root_block",
    "schedule", "script", "select", "tensor_intrin", "transform", "truncdiv", "truncmod", "verifier", "verify",
    "with_root",
]  # fmt: skip


def decl_buffer(
    shape: tuple[Any, ...], dtype: str = "float32", name: str = "buffer", scope: str = "global", **more: Any
) -> Buffer:
    """Create a buffer with a shape and dtype; `more` sets the other fields of `Buffer`."""
    return Buffer(name, tuple(shape), DType(dtype), scope, **more)


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(_DEFINED_IN[name]), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in op.NAMED:
        return op.NAMED[name]
    if name in _SAME_NAMES:
        return sys.modules[__name__]
    raise absent(__name__, name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_DEFINED_IN, *_SUBMODULES, *op.NAMED})
