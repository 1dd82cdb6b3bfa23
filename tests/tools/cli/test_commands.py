"""What each command does when nothing is wrong, on models of a few numbers."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import minitvm as tvm
from minitvm import te, tir
from minitvm.script import from_source
from minitvm.tir.schedule import primitives
from minitvm.tools.cli import main
from minitvm.tools.cli import profile as profiles
from minitvm.tools.cli.explain import SHELF, SPINE
from minitvm.tools.cli.levels import LEVELS, Descent
from tests.frontends.onnx.models import one

from .models import open_determinant, reference, tiny

OPERATOR = "matmul_add_relu"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny(tmp_path_factory.mktemp("model") / "tiny.onnx"))


@pytest.fixture(scope="module")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny(tmp_path_factory.mktemp("model") / "open.onnx", batch="n"))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_run_writes_what_the_model_computes(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], rng: np.random.Generator
) -> None:
    x = rng.standard_normal((2, 8)).astype("float32")
    np.savez(tmp_path / "x.npz", x=x)
    # The name is taken as it is given; NumPy by itself would add .npz.
    told = shown(capsys, "run", model, "--input", f"{tmp_path}/x.npz", "--output", f"{tmp_path}/y", "--check")
    with np.load(tmp_path / "y") as written:
        assert written.files == ["y"]
        np.testing.assert_allclose(written["y"], reference(x), rtol=1e-5, atol=1e-6)
    assert "y: float32[2, 4]" in told and "check y: ok" in told
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npz", "y"]


def test_run_takes_open_dimensions_from_the_arrays_or_from_shape(
    open_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((5, 8), "float32"))
    assert "y: float32[5, 4]" in shown(capsys, "run", open_model, "--input", f"{tmp_path}/x.npz", "--check")
    assert "y: float32[3, 4]" in shown(capsys, "run", open_model, "--shape", "x=3,8", "--check")
    assert "y: float32[0, 4]  empty" in shown(capsys, "run", open_model, "--shape", "x=0,8")


def test_show_says_which_simplifications_needed_more_than_sums(
    model: str, open_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (model, open_model):
        assert "Sums of terms were enough" in shown(capsys, "show", path, "--level", "kernel", "--why-simplified")
    assert main(["show", model, "--level", "tir", "--why-simplified"]) == 2
    assert "--why-simplified goes with --level kernel, not with tir" in capsys.readouterr().err


def test_run_with_check_fails_on_a_wrong_answer(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from minitvm.reference import graph as interpreter

    right = interpreter.run
    monkeypatch.setattr(interpreter, "run", lambda *a, **k: [1.01 * array for array in right(*a, **k)])
    assert main(["run", model, "--check"]) == 1
    assert "check y: WRONG" in capsys.readouterr().out


def test_run_with_checked_reports_an_index_that_is_out_of_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = {"x": ("float32", (3, 2)), "i": ("int64", (2,))}
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(np.dtype(d)), s)
        for k, (d, s) in inputs.items()
    ]
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "i"], ["y"])], "g", infos, [onnx.ValueInfoProto(name="y")]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "gather.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((3, 2), "float32"), i=np.array([1, 7]))
    command = ["run", f"{tmp_path}/gather.onnx", "--input", f"{tmp_path}/x.npz"]
    assert main(command) == 0
    assert main([*command, "--checked"]) == 2
    assert "operator Gather (node y): the index 7 is out of range along axis 0" in capsys.readouterr().err


@pytest.mark.parametrize("level", ["graph", "fused", "te", "tir", "schedule", "kernel", "source", "executable"])
def test_show_prints_every_level(model: str, capsys: pytest.CaptureFixture[str], level: str) -> None:
    wanted = {
        "graph": "nn.matmul(", "fused": f"def {OPERATOR}(", "te": "te.compute(", "tir": '"T_relu"',
        "schedule": "# b0 = sch.get_block(", "kernel": "T.call_kernel(", "source": "thread", "executable": "kernel(",
    }  # fmt: skip
    program = shown(capsys, "show", model, "--level", level)
    assert wanted[level] in program
    assert "schedule_trace" not in program and "schedule_choice" not in program
    if level == "schedule":
        for label in ("# rule        contraction", "# predicted   ", "# work        ", "# caches      "):
            assert label in program
    assert max(map(len, program.split("\n"))) < 400


def test_names_that_fused_shows_are_names_that_op_takes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    fused = shown(capsys, "show", model, "--level", "fused")
    names = [line[4 : line.index("(")] for line in fused.split("\n") if line.startswith("def ")][:-1]
    assert names == [OPERATOR]
    for level in ("te", "tir", "schedule", "kernel", "source"):
        assert shown(capsys, "show", model, "--level", level, "--op", names[0]).startswith(f"# --- {OPERATOR}\n")


@pytest.mark.parametrize("level", ["tir", "schedule", "kernel"])
def test_what_show_prints_reads_back(model: str, capsys: pytest.CaptureFixture[str], level: str) -> None:
    program = shown(capsys, "show", model, "--level", level, "--op", OPERATOR)
    made = tvm.lower(model, stop_at=level)[OPERATOR]
    found = from_source(program)
    if level == "kernel":
        assert list(found.functions) == list(made.functions)
        for name in made.functions:
            tvm.ir.assert_structural_equal(found.functions[name], without_trace(made.functions[name]))
    else:
        tvm.ir.assert_structural_equal(found, without_trace(made))


def without_trace(func: tir.PrimFunc) -> tir.PrimFunc:
    """A function without its schedule's steps, which `show` prints as comments."""
    return tir.PrimFunc(func.params, func.body, {k: v for k, v in func.attrs.items() if not k.startswith("schedule_")})


def test_te_that_show_prints_runs(model: str, capsys: pytest.CaptureFixture[str], rng: np.random.Generator) -> None:
    from minitvm.reference.te import evaluate

    names: dict[str, object] = {"te": te}
    exec(shown(capsys, "show", model, "--level", "te"), names)
    inputs = {names[f"p{k}"]: rng.standard_normal(s).astype("float32") for k, s in enumerate([(2, 8), (8, 4), (4,)])}
    x, w, b = inputs.values()
    (found,) = evaluate(names["T_relu"], inputs)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-6)


def test_check_prints_a_line_a_level(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "check", model).strip().split("\n")
    assert [line.split()[0] for line in lines[:6]] == ["graph", "te", "tir", "schedule", "kernel", "executable"]
    assert all(line.split()[1] in ("ok", "equal") for line in lines[:6])
    assert lines[6] == "all levels agree"


def test_check_compares_what_a_last_softmax_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tiny(tmp_path / "softmax.onnx", op="Softmax"))
    assert "the whole model with what its last softmax reads" in shown(capsys, "check", model)


def test_check_looks_at_operators_of_sizes_that_data_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "places.onnx"
    onnx.save(one("NonZero", (3, 4)), model)
    assert "all levels agree" in shown(capsys, "check", str(model))


def test_check_says_what_a_level_had_no_time_for(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(descent: Descent, args: list[np.ndarray]) -> None:
        while True:
            pass

    monkeypatch.setitem(LEVELS, "kernel", endless)
    lines = shown(capsys, "check", model, "--seconds", "1").split("\n")
    assert "0 of 1 distinct operators" in lines[4]
    assert lines[5] == f"  left out after 1 s of computing: {OPERATOR}"
    assert "all levels agree, 1 of them in part: more with --seconds" in lines


def test_check_fails_where_a_level_disagrees(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = LEVELS["kernel"]

    def one_more(descent: Descent, args: list[np.ndarray]) -> None:
        right(descent, args)
        args[-1] += 1

    monkeypatch.setitem(LEVELS, "kernel", one_more)
    assert main(["check", model]) == 1
    told = capsys.readouterr().out
    assert "kernel     WRONG" in told and f"{OPERATOR}: difference" in told and "1 level disagrees" in told


def test_info_and_explain(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, "info")
    assert "target" in told and "numpy" in told and "cache" in told and "cortex-m4" in told
    assert "Legal when:" in shown(capsys, "explain", "split")
    listed = shown(capsys, "explain")
    assert "\n\nPlaces\n  compute_at " in listed and "\n  get_block " in listed
    files = {path.stem for path in Path(primitives.__file__).parent.glob("*.py")} - {"__init__"}
    assert {file for group in SPINE.values() for file in group} == files
    assert f"\n\n{SHELF}\n" in listed and "\nOthers\n" not in listed


def test_models_that_need_no_file_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = shown(capsys, "models")
    assert "\nresnet50 " in listed and "\nlight_squeezenet.onnx " in listed


def test_a_reader_that_goes_is_no_mistake(model: str) -> None:
    command = f"{sys.executable} -m minitvm.tools.cli show {model} --level kernel"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command} | head -1"], capture_output=True, text=True)
    assert done.stdout.startswith(f"# --- {OPERATOR}")
    assert (done.returncode, done.stderr) == (0, "")


def test_profile_tells_and_writes(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from math import inf

    from minitvm.tools.profile import Level, Machine, measure

    known = Machine("paper", 2, 1e13, (Level("memory", inf, 1e12),))
    monkeypatch.setattr(measure, "machine", lambda threads, again=False: known)
    picture, timeline = tmp_path / "roofline.png", tmp_path / "trace.json"
    told = shown(
        capsys, "profile", model, "--threads", "2", "--runs", "3", "--png", str(picture), "--trace", str(timeline)
    )
    assert OPERATOR in told and "GFLOP/s" in told and "the best of 3 runs" in told
    assert picture.read_bytes()[:4] == b"\x89PNG" and "traceEvents" in timeline.read_text()
    assert main(["profile", model, "--png", str(tmp_path / "nowhere" / "x.png")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_profile_is_of_the_program_that_build_makes(open_model: str, tmp_path: Path) -> None:
    def profiled(model: str, columns: int, *shape: str) -> tuple[object, ...]:
        options = argparse.Namespace(
            model=model, shape=shape, target="cpu", threads=1, trust=False, key=None, engine=[]
        )
        module, _ = profiles.model(options, {"x": np.ones((3, columns), "float32")})
        return tuple(module.executable.inputs[0].shape)

    assert list(map(str, profiled(open_model, 8))) == ["n", "8"], "the arrays do not give open dimensions sizes"
    assert profiled(open_model, 8, "x=3,8") == (3, 8)
    assert profiled(str(open_determinant(tmp_path / "det.onnx", 3)), 3) == (3, 3), (
        "where an operator needs them, they do"
    )


def test_show_prints_machine_code_of_this_machine_and_of_others(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ".globl" in shown(capsys, "show", model, "--level", "asm")
    pytest.importorskip("numba_cuda")
    for arch in ("sm_75", "sm_90a"):
        whole = shown(capsys, "show", model, "--level", "asm", "--target", f"cuda -arch={arch}")
        assert f"for {arch}: " in whole and f".target {arch}\n" in whole and " registers, 0 bytes spilled" in whole
    found = re.search(r"\.entry (\w+)_kernel_0", whole)
    assert found is not None
    part = shown(capsys, "show", model, "--level", "asm", "--target", "cuda", "--op", found[1])
    assert f".entry {found[1]}_kernel_" in part
    for arguments, message in (
        (
            ("--target", "opencl"),
            "opencl has no level asm: the device's driver compiles its kernels; try --level source",
        ),
        (("--target", "cuda", "--op", "nothing"), "no operator nothing: known: "),
        (("--target", "cuda -arch=sm_1"), "'sm_1' is no architecture of CUDA"),
    ):
        assert main(["show", model, "--level", "asm", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_an_artifact_is_profiled_and_its_memory_shown(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from math import inf

    from minitvm.tools.profile import Level, Machine, measure

    known = Machine("paper", 1, 1e13, (Level("memory", inf, 1e12),))
    monkeypatch.setattr(measure, "machine", lambda threads, again=False: known)
    path = str(tmp_path / "net.mtvm")
    tvm.build(model, threads=1).export(path)
    told = shown(capsys, "profile", path, "--runs", "2", "--trust", "--threads", "1")
    assert OPERATOR in told and "the best of 2 runs" in told
    plan = shown(capsys, "show", path, "--level", "memory")
    assert "peak 0 bytes" in plan and "weights 144 bytes" in plan, "the only result is the caller's"
    assert shown(capsys, "show", model, "--level", "memory") == plan
    assert main(["profile", model, "--trust"]) == 2


def test_networks_are_known_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nn.conv2d" in shown(capsys, "show", "squeezenet1_1", "--level", "graph")
