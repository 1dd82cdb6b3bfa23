"""Runs exported networks in one process of node, which has relaxed SIMD."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import minitvm
from minitvm.executable import Executable
from minitvm.export.wasm import TARGET, export
from minitvm.runtime import GraphModule
from minitvm.runtime.here import on_this_machine

_ARRAYS = {
    "float32": "Float32Array", "float64": "Float64Array", "int64": "BigInt64Array", "uint64": "BigUint64Array",
    "int32": "Int32Array", "uint32": "Uint32Array", "int16": "Int16Array", "uint16": "Uint16Array",
    "int8": "Int8Array", "uint8": "Uint8Array", "bool": "Uint8Array", "float16": "Uint16Array",
    "bfloat16": "Uint16Array",
}  # fmt: skip


class NodeError(Exception):
    """An error of JavaScript. `kind` is the name of its class."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


def absent() -> str:
    """Return why exported networks cannot run here, or "" if they can."""
    if shutil.which("node") is None:
        return "node is not installed"
    return "" if _version() >= 20 else f"node {_version()} has no relaxed SIMD"


def _version() -> int:
    text = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(text.lstrip("v").split(".")[0])


class Node:
    """A process of node that runs exported networks. Close it at the end."""

    def __init__(self) -> None:
        driver = Path(__file__).with_name("driver.js")
        program = driver.read_text()
        flags = ["--experimental-wasm-relaxed-simd"] if _version() < 22 else []
        self._process = subprocess.Popen(
            ["node", "--no-warnings", *flags, "--input-type=module", "--eval", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(
        self, folder: Path, inputs: dict[str, Any], dtypes: list[Any], drop: bool = False, relaxed: bool = True
    ) -> list[np.ndarray]:
        """Run the network of a folder. `dtypes` are those of the outputs. Raises `NodeError` for an error there.

        Without `drop`, the network stays loaded.
        """
        request = {"folder": str(folder), "drop": drop, "relaxed": relaxed}
        request["inputs"] = {name: _sent(x) for name, x in inputs.items()}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise NodeError(answer["error"], answer["kind"])
        return [
            np.frombuffer(base64.b64decode(item["base64"]), _dtype(dtype)).reshape(item["shape"])
            for item, dtype in zip(answer["outputs"], dtypes, strict=True)
        ]

    def close(self) -> None:
        self._process.communicate()


def _dtype(name: Any) -> Any:
    return ml_dtypes.bfloat16 if str(name) == "bfloat16" else np.dtype(str(name))


def _sent(x: Any) -> dict[str, Any]:
    if not isinstance(x, np.ndarray):
        return {"number": x}
    data = base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()
    return {"kind": _ARRAYS[str(x.dtype)], "base64": data, "shape": list(x.shape)}


class Exported:
    """Exports models into folders of their own, and compares what they compute in node with the same kernels here."""

    def __init__(self, process: Node, folder: Path) -> None:
        self.process, self.folder = process, folder
        self.count = 0

    def lower(self, model: Any, **options: Any) -> Executable:
        executable: Executable = minitvm.lower(model, target=TARGET, stop_at="executable", **options)
        return executable

    def write(self, executable: Executable, fallback: bool = False) -> Path:
        """Export to a new folder."""
        self.count += 1
        place = self.folder / str(self.count)
        export(executable, place, fallback=fallback)
        return place

    def agree(self, model: Any, *runs: dict[str, Any], **options: Any) -> list[list[np.ndarray]]:
        """Require that each run gives the same bits in node and here. Returns the outputs."""
        executable = self.lower(model, **options)
        place, module = self.write(executable), GraphModule(on_this_machine(executable), threads=1)
        results = []
        for inputs in runs:
            expected = module(**inputs)
            outputs = self.run(executable, place, inputs)
            same_bits(outputs, expected if isinstance(expected, tuple) else (expected,))
            results.append(outputs)
        return results

    def run(self, executable: Executable, place: Path, inputs: dict[str, Any], drop: bool = False) -> list[np.ndarray]:
        return self.process.run(place, inputs, [spec.dtype for spec in executable.outputs], drop)


def same_bits(outputs: Any, expected: Any) -> None:
    """Require equal arrays. Two NaNs are equal: their bits depend on the machine."""
    for a, b in zip(outputs, expected, strict=True):
        b = np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        number = a.dtype.kind == "f" or a.dtype == ml_dtypes.bfloat16
        if number:
            nan = np.isnan(a)
            assert (nan == np.isnan(b)).all()
            a, b = np.where(nan, 0, a), np.where(nan, 0, b)
        assert a.tobytes() == b.tobytes(), f"the largest difference is {np.abs(a - b).max()}"
