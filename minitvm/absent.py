"""TVM names that minitvm does not have, and what to use instead of each.

`absent` returns a module's error for an attribute that it does not have. `absent_module` returns the error for an
import. docs/tvm.md has the table; a test compares it with these entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_GRAPHS = "use minitvm.build(model.onnx), or write a minitvm.graph.Graph with minitvm.graph.GraphBuilder"
_PASSES = "minitvm.build runs all passes; minitvm.lower(model, stop_at='fused') shows their result"
_SCHEDULE = "use te.create_prim_func(tensors), and then minitvm.tir.Schedule(func)"
_TUNING = (
    "use minitvm.tune.tune(model) or `minitvm tune MODEL` to measure schedules (later builds use the best one);"
    " minitvm.tune.tune_func(func, schedule=template) tunes your own template"
)
_DEVICES = "to run on a device, use minitvm.build(model, target='cuda') or target='opencl', and pass NumPy arrays"
_FFI = "call Python functions directly, because there is no registry of foreign functions"

# From an attribute of `minitvm`, or of one of its modules, to what you can do instead.
ABSENT: dict[str, str] = {
    "relay": _GRAPHS,
    "relax.BlockBuilder": "use minitvm.graph.GraphBuilder, with b.op, b.call_tir and b.call_te",
    "relax.Var": "use minitvm.graph.GraphBuilder().input(name, shape, dtype)",
    "relax.const": "use minitvm.graph.GraphBuilder().constant(array)",
    "relax.op": "use the text of an R.function, or minitvm.graph.GraphBuilder().op(name, ...)",
    "relax.nn": _GRAPHS,
    "relax.Function": "use minitvm.graph.Graph",
    "relax.get_pipeline": _PASSES,
    "relax.transform.LegalizeOps": _PASSES,
    "relax.transform.FuseOps": _PASSES,
    "relax.transform.FuseTIR": _PASSES,
    "relax.transform.FoldConstant": _PASSES,
    "relax.transform.FuseOpsByPattern": "use minitvm.build(model, engines=...), or an engine of your own",
    "relax.frontend.detach_params": "weights are constants, and build(model, params={...}) turns inputs into constants",
    "relax.frontend.nn": _GRAPHS,
    "relax.frontend.tflite": "use minitvm.build(model.tflite)",
    "dlight": _TUNING,
    "autotvm": _TUNING,
    "auto_scheduler": _TUNING,
    "meta_schedule": _TUNING,
    "micro": _DEVICES,
    "rpc": _DEVICES,
    "contrib": "instead of contrib.graph_executor, call the module that minitvm.build(model) returns;"
    " minitvm.runtime.register_engine adds external engines",
    "driver": "use minitvm.build and minitvm.lower",
    "parser": "use minitvm.script.from_source(text)",
    "cuda": _DEVICES,
    "gpu": _DEVICES,
    "rocm": _DEVICES,
    "opencl": _DEVICES,
    "metal": _DEVICES,
    "vulkan": _DEVICES,
    "ffi": _FFI,
    "te.create_schedule": _SCHEDULE,
    "te.Schedule": _SCHEDULE,
    "te.thread_axis": 'use sch.bind(loop, "threadIdx.x")',
    "te.extern": "use te.extern_primfunc with a T.prim_func",
    "te.scan": "use te.extern_primfunc with a loop in a T.prim_func",
    "te.hybrid": "use te.extern_primfunc with a T.prim_func",
    "te.gradient": "minitvm does not differentiate tensor expressions",
    "tir.ir_builder": "use @T.prim_func, or tir.PrimFunc of statements",
    "tir.build": "use minitvm.build(func)",
    "tir.ProducerStore": "use tir.BufferStore",
    "tir.ProducerLoad": "use tir.BufferLoad",
    "tir.BufferRealize": "use a block's alloc_buffers",
    "tir.AttrStmt": "use annotations of loops and blocks",
    "tir.DataProducer": "use a te.Tensor",
    "tir.Layout": "use tir.IndexMap",
    "tir.bijective_layout": "use tir.IndexMap",
    "tir.layout": "use tir.IndexMap",
    "ir.GlobalVar": "use the function's name, a string",
    "ir.Op": "use the operation's name, a string",
    "ir.register_op_attr": "use minitvm.graph's registry of operators",
    "ir.module": "use minitvm.ir.IRModule, or minitvm.IRModule",
    "script.ir_builder": "use @T.prim_func, or tir.PrimFunc of statements",
    "script.parser": "use minitvm.script.from_source(text)",
    "ir.load_pass": "get the pass from minitvm.tir.transform by its name",
    "runtime.Module": "use runtime.Function and runtime.GraphModule",
    "runtime.vm": "use runtime.GraphModule",
    "runtime.disco": _DEVICES,
    "runtime.ShapeTuple": "use a tuple",
    "runtime.String": "use a str",
    "runtime.PackedFunc": "use runtime.Function",
    "testing.requires_gpu": _DEVICES,
    "testing.enabled_targets": 'use ["cpu"], or the emulated targets of minitvm.target',
    "testing.parametrize_targets": "use pytest.mark.parametrize",
}


class _Absent(AttributeError):
    """An error that looks for similar names only when it is printed, because `hasattr` also raises it."""

    def __init__(self, headline: str, name: str, names: Sequence[str]) -> None:
        super().__init__(headline)
        self._sought, self._names = name, names

    def __str__(self) -> str:
        near = get_close_matches(self._sought, self._names, 3)
        return f"{self.args[0]}: did you mean {' or '.join(near)}?" if near else str(self.args[0])


def absent(module: str, name: str, names: Sequence[str]) -> AttributeError:
    """Return the error for an attribute that a module does not have. It names the replacement, or the nearest names."""
    inside = module.partition(".")[2]
    key = f"{inside}.{name}" if inside else name
    headline = f"module {module!r} has no attribute {name!r}"
    if key in ABSENT:
        return AttributeError(f"{headline}: TVM's {key} is not here\n  try:    {ABSENT[key]}")
    return AttributeError(headline) if name.startswith("_") else _Absent(headline, name, names)


def absent_module(module: str) -> ModuleNotFoundError | None:
    """Return the error for importing a TVM module such as `minitvm.relax`, or None if the table has no entry for it.

    The error's attribute `name` is not set, because Python drops an error that names the module in `from minitvm import
    ...`.
    """
    key = module.partition(".")[2]
    if key not in ABSENT:
        return None
    return ModuleNotFoundError(f"No module named {module!r}: TVM's {key} is not here\n  try:    {ABSENT[key]}")
