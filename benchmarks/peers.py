"""The systems that networks and layers are measured beside: a function that runs an ONNX model once, for each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[], Any]


def onnx_runtime(model: Any, inputs: Mapping[str, np.ndarray], threads: int) -> Run:
    """ONNX Runtime on the CPU, its own defaults but for the number of threads."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(inputs))


def openvino(model: Any, inputs: Mapping[str, np.ndarray], threads: int) -> Run | None:
    """OpenVINO on the CPU for the least latency, in float32; None where it is not installed."""
    try:
        import openvino as ov
    except ImportError:
        return None
    core = ov.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings).create_infer_request()
    given = dict(inputs)
    return lambda: request.infer(given, share_inputs=True, share_outputs=True)


def output_of(result: Any) -> np.ndarray:
    """The first output of what a run gave."""
    first = result[0] if isinstance(result, list | tuple) else next(iter(result.values()))
    return np.asarray(first)


def all_of(model: Any, inputs: Mapping[str, np.ndarray], threads: int) -> dict[str, Run]:
    """Every peer that is installed, by name."""
    found: dict[str, Run] = {"ONNX Runtime": onnx_runtime(model, inputs, threads)}
    other = openvino(model, inputs, threads)
    if other is not None:
        found["OpenVINO"] = other
    return found


def litert(model: Path, shapes: Sequence[Sequence[int]] = (), threads: int = 1) -> Any:
    """LiteRT's interpreter of a TFLite model, with its default kernels and the XNNPACK delegate.

    `shapes` are those of the first inputs, for a model that leaves sizes open.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(model_path=str(model), num_threads=threads)
    for detail, shape in zip(interpreter.get_input_details(), shapes, strict=False):
        interpreter.resize_tensor_input(detail["index"], list(shape))
    interpreter.allocate_tensors()
    return interpreter
