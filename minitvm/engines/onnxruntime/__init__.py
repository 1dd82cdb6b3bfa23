"""ONNX Runtime: a region becomes an ONNX model, whose inputs and outputs are bound to our memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...executable.alignment import address
from ..engine import Arrays, Engine, Prepared, Region, needs
from ..onnx_text import model_of, probed, translate

_ERRORS_ONLY = 4  # a severity: warnings about the models of single operators are of no interest


def _options(threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Threads that spin after a call would take the cores from our kernels.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = _ERRORS_ONLY
    return options


def _session(model: bytes, options: Any) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def prepare(region: Region, constants: Mapping[str, np.ndarray[Any, Any]], threads: int) -> Prepared:
    """Load the model of a region. It reads the constants in our memory."""
    import onnxruntime

    options = _options(threads)
    model, large = model_of(region.code)
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(constants[name]) for name in large]
    options.add_external_initializers(large, values)
    return _Bound(_session(model, options), region, values)


class _Bound:
    """A session whose inputs and outputs are bound to addresses and shapes, until they change."""

    def __init__(self, session: Any, region: Region, values: Any) -> None:
        self.session, self.values, self.is_symbolic = session, values, region.is_symbolic
        self.inputs, self.read = [spec.name for spec in region.inputs], {info.name for info in session.get_inputs()}
        self.outputs = [info.name for info in session.get_outputs()]
        self.places: list[Any] = []
        self.binding = session.io_binding()

    def __call__(self, inputs: Arrays, outputs: Arrays, workspace: Any) -> None:  # noqa: ARG002
        places: list[Any] = [address(array) for array in (*inputs, *outputs)]
        bound = [*places, *(array.shape for array in inputs)] if self.is_symbolic else places
        if bound != self.places:
            for name, array, place in zip(self.inputs, inputs, places, strict=False):
                if name in self.read:
                    self.binding.bind_input(name, "cpu", 0, array.dtype, array.shape, place)
            for name, array, place in zip(self.outputs, outputs, places[len(inputs) :], strict=True):
                self.binding.bind_output(name, "cpu", 0, array.dtype, array.shape, place)
            self.places = bound
        self.session.run_with_iobinding(self.binding)


ENGINE = Engine(
    "onnxruntime", prepare, supports=probed(lambda model: _session(model, _options(1))), translate=translate,
    missing=needs("onnxruntime", "onnx"), symbolic=True,
)  # fmt: skip
