"""Networks as WebAssembly in node, on one thread, compared with ONNX Runtime Web.

    python -m benchmarks.wasm [squeezenet1_1 ...]

Both run in one process and take turns. Outputs must have the bits of the same kernels on this machine, and agree with
ONNX Runtime Web's. "code" is the size of net.wasm: the network without its weights. npm installs ONNX Runtime Web into
the folder build/onnxruntime-web.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm.export.wasm import TARGET, export
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.runtime import GraphModule
from minitvm.runtime.here import on_this_machine
from minitvm.tools import models

from . import harness

NETWORKS = (
    "squeezenet1_0", "squeezenet1_1", "mobilenet", "mobilenet_v2", "mobilenet_v3", "shufflenet_v2", "resnet18",
    "efficientnet_b0", "regnet_y_400mf", "densenet121",
)  # fmt: skip
VERSION = "1.30.0"  # of ONNX Runtime Web
ROUNDS = 15
WANTED = 1.15  # the geometric mean
CODE_WANTED = 150_000  # bytes
_PEER = "ONNX Runtime Web"
_FOLDER = Path(__file__).parent.parent / "build" / "onnxruntime-web"


def installed() -> Path:
    """The folder of ONNX Runtime Web; npm installs it if it is missing."""
    package = _FOLDER / "node_modules" / "onnxruntime-web"
    if not package.is_dir():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        (_FOLDER / "package.json").write_text("{}\n")
        command = ["npm", "install", "--silent", "--ignore-scripts", f"onnxruntime-web@{VERSION}"]
        subprocess.run(command, cwd=_FOLDER, check=True)
    return package


def prepared(name: str, folder: Path) -> dict[str, int]:
    """Write a network, its inputs, and the outputs of the same kernels here. Returns the sizes of its files."""
    graph = models.get(name)
    inputs = models.example_inputs(graph)
    executable = minitvm.lower(graph, target=TARGET, stop_at="executable")
    sizes = export(executable, folder, fallback=False)
    (folder / "net.onnx").write_bytes(to_onnx(graph).SerializeToString())
    outputs = GraphModule(on_this_machine(executable), threads=1)(**inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for key, array in inputs.items():
        np.ascontiguousarray(array).tofile(folder / f"input.{key}")
    for spec, array in zip(executable.outputs, outputs):
        np.ascontiguousarray(array).tofile(folder / f"output.{spec.name}")
    return sizes


def measured(name: str) -> tuple[harness.Row, dict[str, Any]]:
    """One network compared with the peer, and the other figures of its record."""
    with tempfile.TemporaryDirectory() as place:
        sizes = prepared(name, Path(place))
        driver = Path(__file__).with_name("wasm_node.mjs")
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
        flags = ["--experimental-wasm-relaxed-simd"] if int(version[1:].split(".")[0]) < 22 else []
        command = ["node", "--no-warnings", *flags, str(driver), place, str(installed()), str(ROUNDS)]
        result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    if result["different"]:
        raise RuntimeError(f"{name}: {result['different']} elements differ from those of the same kernels here")
    if not result["apart"] <= harness.TOLERANCE:
        raise RuntimeError(f"{name}: minitvm and {_PEER} differ: nothing to measure")
    row = harness.Row(name, 1, result["ours"], result["peer"], _PEER, 1.0)
    return row, {"code": sizes["net.wasm"], "weights": sizes["net.weights.bin"], "load": result["load"]}


def main(names: list[str] | None = None) -> None:
    """Measure the networks given, or all."""
    networks = names or list(NETWORKS)
    rows, files = [], {}
    for name in networks:
        row, files[name] = measured(name)
        rows.append(row)
    harness.table("networks as WebAssembly in node, batch 1", rows)
    for name, sizes in files.items():
        verdict = "" if sizes["code"] <= CODE_WANTED else "  long"
        print(f"  {name:<28}code {sizes['code'] / 1e3:6.1f} KB, loaded in {sizes['load'] * 1e3:.0f} ms{verdict}")
    mean = harness.geometric_mean([row.ratio for row in rows])
    print(f"  geometric mean: {mean:.2f} (wanted {WANTED})")
    harness.save("wasm", rows, files=files, geometric_mean=mean)


if __name__ == "__main__":
    main(sys.argv[1:])
