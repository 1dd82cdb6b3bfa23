"""Code for CPUs that a target names: their instructions and no others, and an error where this machine lacks them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import minitvm
from minitvm.errors import TargetError, Unsupported
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.graph import Graph, GraphBuilder
from minitvm.machines.cpu.runtime import compiled_for, loader
from minitvm.machines.cpu.runtime.compiler import assembly
from minitvm.reference import graph as interpreter
from minitvm.runtime import GraphModule
from minitvm.runtime.artifact.export import export
from minitvm.runtime.here import on_this_machine
from minitvm.target import CPU, Cache, Target
from minitvm.target.host import native
from minitvm.target.isas import ISAS
from minitvm.tools.cli import main
from minitvm.tune.measure import Runner
from tests.drawing import Seeded

ROOT = Path(__file__).parents[3] / "minitvm"
FOREIGN = ("cortex-a76", "cortex-m7", "x86-64-v2", "wasm")
# What stands in the assembly of x86-64 only for CPUs of a higher level: registers, and the VEX encoding of AVX.
BEYOND = {
    "x86-64-v2": r"%[yz]mm|%k[0-7]|^\s+v[a-z]",
    "x86-64-v3": r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3\d)",
    "x86-64-v4": r"vpdpbusd",
}  # fmt: skip
NEEDED = {"x86-64-v2": r"%xmm", "x86-64-v3": r"%ymm", "x86-64-v4": r"%zmm"}


def network(seed: int = 0) -> tuple[Graph, list[np.ndarray]]:
    """A convolution, a product of matrices with softmax, and a product of bytes: each with rows that vectors do not
    divide."""
    d, b = Seeded(seed), GraphBuilder()
    x, bytes_of_x = b.input("x", (1, 5, 9, 7), "float32"), b.input("q", (3, 20), "uint8")
    image = b.op("nn.relu", b.op("nn.conv2d", x, d.data((11, 5, 3, 3), "float32", -2, 2), padding=(1, 1)))
    # A constant that folding computes by kernels of the target.
    weight = b.op("sin", b.constant(d.data((19, 63), "float32", -1, 1)))
    rows = b.op("nn.softmax", b.op("nn.dense", b.op("reshape", image, newshape=(11, 63)), weight))
    words = b.op("nn.dense", bytes_of_x, d.data((6, 20), "int8", -128, 127), out_dtype="int32")
    inputs = [d.data((1, 5, 9, 7), "float32", -3, 3), d.data((3, 20), "uint8", 0, 255)]
    return b.build([image, rows, words]), inputs


def runnable(model: str) -> bool:
    return not loader.lacking(ISAS[model])


@pytest.mark.parametrize("model", BEYOND)
def test_code_for_a_level_of_x86_has_its_instructions_alone(model: str) -> None:
    graph, inputs = network()
    target = Target(f"cpu -arch={model} -cores=1")
    text = "\n".join(assembly(k.source, k.entry, target) for k in minitvm.lower(graph, target, "executable").kernels)
    assert re.search(NEEDED[model], text)
    assert re.findall(BEYOND[model], text, re.MULTILINE) == []
    assert "fmaf" not in text  # a call of the C library for each lane
    if runnable(model):
        module = minitvm.build(graph, target, threads=1)
        for output, expected in zip(module(*inputs), interpreter.run(graph, inputs), strict=True):
            np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


def test_a_cpu_without_fused_multiply_adds_computes_functions_as_exactly() -> None:
    b = GraphBuilder()
    x = b.input("x", (257,), "float32")
    results = [b.op(op, x) for op in ("exp", "tanh", "erf", "sin", "cos", "log", "sigmoid")]
    graph, places = b.build(results), np.linspace(-9, 9, 257, dtype=np.float32)
    if not runnable("x86-64-v2"):
        pytest.skip("not this architecture")
    expected = interpreter.run(graph, [places])
    for output, exact in zip(minitvm.build(graph, "cpu -arch=x86-64-v2", threads=1)(places), expected, strict=True):
        np.testing.assert_array_max_ulp(np.nan_to_num(np.asarray(output)), np.nan_to_num(exact), 4)


def test_a_cpu_without_conversions_of_float16_converts_all_of_them_exactly() -> None:
    b = GraphBuilder()
    wide = b.op("cast", b.input("x", (1 << 16,), "float16"), dtype="float32")
    graph, numbers = b.build(wide), np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    if not runnable("x86-64-v2"):
        pytest.skip("not this architecture")
    output = minitvm.build(graph, "cpu -arch=x86-64-v2", threads=1)(numbers)
    np.testing.assert_array_equal(output, numbers.astype(np.float32))


@pytest.mark.parametrize("model", ["cortex-a76", "riscv64-v"])
def test_assembly_of_another_architecture_is_printed(model: str) -> None:
    graph, _ = network()
    target = Target(f"cpu -arch={model}")
    kernel = max(minitvm.lower(graph, target, "executable").kernels, key=lambda k: len(k.source))
    text = assembly(kernel.source, kernel.entry, target)
    assert re.search(r"\bfmla\b" if model == "cortex-a76" else r"\bvf(n?m)?(madd|macc)\.", text)


def test_assembly_of_a_machine_with_addresses_of_32_bits_is_refused() -> None:
    with pytest.raises(Unsupported, match="addresses of 64 bits, those of cpu -model=cortex-m4 have 32"):
        assembly("", "", Target("cpu -arch=cortex-m4"))


def test_a_build_for_a_cpu_that_this_machine_is_not_is_refused(tmp_path: Path) -> None:
    """Lowering and saving are not, and its kernels may be compiled for this machine."""
    graph, (x, q) = network()
    model = "cortex-a76" if native().architecture == "x86_64" else "x86-64-v2"
    with pytest.raises(TargetError, match=f"this machine cannot run code for the target cpu -model={model}\n  wanted:"):
        minitvm.build(graph, f"cpu -arch={model}")
    executable = minitvm.lower(graph, f"cpu -arch={model}", stop_at="executable")
    assert executable.target == f"cpu -model={model}"
    export(executable, tmp_path / "net.mtvm", key=b"0123456789abcdef")
    for output, expected in zip(
        GraphModule(on_this_machine(executable))(x, q), interpreter.run(graph, [x, q]), strict=True
    ):
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
    assert (tmp_path / "net.mtvm").stat().st_size > 1000


def test_the_tuner_measures_only_what_runs_here() -> None:
    model = "cortex-a76" if native().architecture == "x86_64" else "x86-64-v2"
    with Runner() as runner, pytest.raises(TargetError, match="this machine cannot run code"):
        runner.architectures(Target(f"cpu -arch={model}"))


def test_check_compares_the_kernels_of_any_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = GraphBuilder()
    onnx.save(to_onnx(b.build(b.op("nn.softmax", b.input("x", (3, 5))))), tmp_path / "net.onnx")
    assert main(["check", str(tmp_path / "net.onnx"), "--target", "cpu -arch=cortex-m7"]) == 0
    assert "all levels agree" in capsys.readouterr().out


def test_a_feature_that_this_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader.llvm, "get_host_cpu_features", lambda: {"avx2": True})
    monkeypatch.setattr(loader, "native", lambda: ISAS["x86-64"])
    assert "avx512vl" in loader.lacking(ISAS["x86-64-v4"])
    with pytest.raises(TargetError, match="wanted: a CPU with .*avx512f"):
        compiled_for.require_runnable(Target("cpu -arch=x86-64-v4"))


WIDE = CPU("wide", 512, 32, cores=64, features=("avx512f", "avx512vl", "avx512_bf16", "amx_int8", "amx_bf16"))
NARROW = CPU("narrow", 128, 16, 1, 9, False, l1=Cache(8192, 2), l2=Cache(65536, 4), l3=Cache(0, 1), l1_rate=8)


@pytest.mark.parametrize("model", FOREIGN)
def test_what_is_lowered_for_a_named_machine_does_not_depend_on_this_one(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _ = network()
    monkeypatch.setattr("minitvm.lowering.cache.get", lambda *of_function: None)
    texts = []
    for host, architecture in ((WIDE, "x86_64"), (NARROW, "mips64")):
        monkeypatch.setattr("minitvm.target.host.detect_cpu", lambda host=host: host)
        monkeypatch.setattr("platform.machine", lambda architecture=architecture: architecture)
        texts.append(minitvm.lower(graph, f"cpu -arch={model}", stop_at="source"))
    assert texts[0] == texts[1]


# Who may ask what this machine is: its description, and the runtime that compiles, links and runs code here.
ASKS = re.compile(
    r"get_host_cpu|get_process_triple|detect_cpu|tiles_allowed|platform\.machine|/proc/cpuinfo|import native|native\(\)"
)
MAY_ASK = {
    "target/__init__.py", "target/host.py", "target/isas.py", "target/models.py", "tools/cli/info.py",
    *(f"machines/cpu/runtime/{name}.py" for name in ("compiled_for", "identity", "image", "loader")),
}  # fmt: skip


def test_only_the_description_of_the_host_and_the_runtime_ask_what_this_machine_is() -> None:
    asking = set()
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        if not ASKS.search(text):
            continue
        tree: Any = ast.parse(text)
        for node in ast.walk(tree):  # docstrings and comments may speak of it
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
                node.body = node.body[1:] or [ast.Pass()]
        if ASKS.search(ast.unparse(tree)):
            asking.add(path.relative_to(ROOT).as_posix())
    assert asking == MAY_ASK
