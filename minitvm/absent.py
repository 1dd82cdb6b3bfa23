"""Names of TVM that minitvm does not have, each with its replacement here.

`absent` returns a module's error for an attribute that it does not have. `absent_module` returns the error for
an import. docs/tvm.md has the table; a test compares it with these entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_GRAPHS = "a model is a minitvm.graph.Graph: minitvm.build(model.onnx), or minitvm.graph.GraphBuilder"
_SCHEDULE = "te.create_prim_func(tensors), then minitvm.tir.Schedule(func)"
_TUNING = (
    "minitvm.tune.tune(model) or `minitvm tune MODEL` measures schedules, and later builds use the best;"
    " minitvm.tune.tune_func(func, schedule=template) tunes a template of your own"
)
_DEVICES = "minitvm.build(model, target='cuda') or 'opencl' runs on such devices; arrays are NumPy arrays on the host"
_FFI = "call Python functions directly; there is no registry of foreign functions"

# From an attribute of `minitvm`, or of one of its modules, to its replacement.
ABSENT: dict[str, str] = {
    "relay": _GRAPHS,
    "relax": _GRAPHS,
    "dlight": _TUNING,
    "autotvm": _TUNING,
    "auto_scheduler": _TUNING,
    "meta_schedule": _TUNING,
    "micro": _DEVICES,
    "rpc": _DEVICES,
    "contrib": "minitvm.build(model) returns a module that you call with arrays, instead of contrib.graph_executor;"
    " minitvm.runtime.register_engine adds external engines",
    "driver": "minitvm.build and minitvm.lower",
    "parser": "minitvm.script.from_source(text)",
    "cuda": _DEVICES,
    "gpu": _DEVICES,
    "rocm": _DEVICES,
    "opencl": _DEVICES,
    "metal": _DEVICES,
    "vulkan": _DEVICES,
    "register_func": _FFI,
    "register_global_func": _FFI,
    "get_global_func": _FFI,
    "ffi": _FFI,
    "te.create_schedule": _SCHEDULE,
    "te.Schedule": _SCHEDULE,
    "te.thread_axis": 'sch.bind(loop, "threadIdx.x")',
    "te.extern": "te.extern_primfunc with a T.prim_func",
    "te.scan": "te.extern_primfunc with a loop in a T.prim_func",
    "te.hybrid": "te.extern_primfunc with a T.prim_func",
    "te.gradient": "minitvm does not differentiate tensor expressions",
    "tir.ir_builder": "@T.prim_func, or tir.PrimFunc of statements",
    "tir.build": "minitvm.build(func)",
    "tir.ProducerStore": "tir.BufferStore",
    "tir.ProducerLoad": "tir.BufferLoad",
    "tir.BufferRealize": "a block's alloc_buffers",
    "tir.AttrStmt": "annotations of loops and blocks",
    "tir.DataProducer": "a te.Tensor",
    "tir.Layout": "tir.IndexMap",
    "tir.bijective_layout": "tir.IndexMap",
    "tir.layout": "tir.IndexMap",
    "ir.GlobalVar": "the name of the function, a string",
    "ir.Op": "the name of the operation, a string",
    "ir.register_op_attr": "minitvm.graph's registry of operators",
    "ir.module": "minitvm.ir.IRModule, or minitvm.IRModule",
    "script.relax": _GRAPHS,
    "script.ir_builder": "@T.prim_func, or tir.PrimFunc of statements",
    "script.parser": "minitvm.script.from_source(text)",
    "ir.load_pass": "minitvm.tir.transform by name",
    "runtime.Module": "runtime.Function and runtime.GraphModule",
    "runtime.vm": "runtime.GraphModule",
    "runtime.disco": _DEVICES,
    "runtime.ShapeTuple": "a tuple",
    "runtime.String": "a str",
    "runtime.PackedFunc": "runtime.Function",
    "testing.requires_gpu": _DEVICES,
    "testing.enabled_targets": '["cpu"], or the emulated targets: minitvm.target',
    "testing.parametrize_targets": "pytest.mark.parametrize",
}


class _Absent(AttributeError):
    """Looks for the nearest names when it is printed: `from .. import lowering` first asks with `hasattr`."""

    def __init__(self, headline: str, name: str, names: Sequence[str]) -> None:
        super().__init__(headline)
        self._sought, self._names = name, names

    def __str__(self) -> str:
        near = get_close_matches(self._sought, self._names, 3)
        return f"{self.args[0]}: did you mean {' or '.join(near)}?" if near else str(self.args[0])


def absent(module: str, name: str, names: Sequence[str]) -> AttributeError:
    """The error for an attribute that a module does not have: its replacement here, or the nearest names."""
    inside = module.partition(".")[2]
    key = f"{inside}.{name}" if inside else name
    headline = f"module {module!r} has no attribute {name!r}"
    if key in ABSENT:
        return AttributeError(f"{headline}: TVM's {key} is not here\n  try:    {ABSENT[key]}")
    return AttributeError(headline) if name.startswith("_") else _Absent(headline, name, names)


def absent_module(module: str) -> ModuleNotFoundError | None:
    """The error for an import of a module of TVM's, `minitvm.relax` for example; None where the table has no entry.

    It has no `name`, for Python drops an error that has the name of what `from minitvm import ...` asks for.
    """
    key = module.partition(".")[2]
    if key not in ABSENT:
        return None
    return ModuleNotFoundError(f"No module named {module!r}: TVM's {key} is not here\n  try:    {ABSENT[key]}")
