"""OpenVINO: a region becomes an ONNX model, whose inputs and outputs are tensors that share our memory."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...executable.alignment import address
from ...graph.nodes import OpNode
from ..engine import Arrays, Engine, Prepared, Region, needs
from ..onnx_text import complete, probed, translate


@functools.cache
def _first_core() -> tuple[Any, int]:
    """Return OpenVINO's core, and the process that made it."""
    import openvino

    return openvino.Core(), os.getpid()


def _core() -> Any:
    """Return OpenVINO's core. Raises `RuntimeError` in a forked child: it would wait for threads of its parent."""
    core, process = _first_core()
    if process != os.getpid():
        raise RuntimeError("it does not work in a process that was forked after its first use")
    return core


def _compiled(model: bytes, threads: int) -> Any:
    config = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",  # as the graph says, also on machines that multiply bfloat16
        "ENABLE_CPU_PINNING": False,  # pinned threads would share a core with ours
    }
    return _core().compile_model(_core().read_model(model), "CPU", config)


def prepare(region: Region, constants: Mapping[str, np.ndarray[Any, Any]], threads: int) -> Prepared:
    """Compile a region. OpenVINO has its own copy of the constants."""
    return _Shared(_compiled(complete(region.code, constants), threads), [spec.name for spec in region.inputs])


class _Shared:
    """A request whose tensors share our memory, until the addresses change."""

    def __init__(self, model: Any, inputs: list[str]) -> None:
        self.request = model.create_infer_request()
        read = {name for port in model.inputs for name in port.get_names()}
        self.inputs = [name if name in read else "" for name in inputs]
        self.places: list[int] = []

    def __call__(self, inputs: Arrays, outputs: Arrays, workspace: Any) -> None:  # noqa: ARG002
        import openvino

        places = [address(array) for array in (*inputs, *outputs)]
        if places != self.places:
            for name, array in zip(self.inputs, inputs, strict=True):
                if name:
                    self.request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
            for number, array in enumerate(outputs):
                self.request.set_output_tensor(number, openvino.Tensor(array, shared_memory=True))
            self.places = places
        self.request.infer()


# Its CPU kernels compute all other types in one of these, for example int64 as int32. They saturate sums of 8 bits,
# which wrap in our graphs.
_OWN_TYPES = frozenset(("float32", "float16"))


def supports(item: OpNode) -> str:
    """Return why OpenVINO cannot compute an operator, or ""."""
    other = next((v.dtype for v in (*item.inputs, *item.outputs) if v.dtype not in _OWN_TYPES), None)
    return f"OpenVINO computes {other} in another way" if other is not None else _loads(item)


# For example, the logarithm of a sum over the first axis of [2, 1] has no axis there, instead of one.
_loads = probed(lambda model: _compiled(model, 1), lambda compiled: [tuple(port.shape) for port in compiled.outputs])

ENGINE = Engine("openvino", prepare, supports=supports, translate=translate, missing=needs("openvino", "onnx"))
