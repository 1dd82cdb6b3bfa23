"""The folder of a C program: its files, what builds them, and the models and arguments that are refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.errors import InputError, MinitvmError
from minitvm.executable import CallExternal, Executable, Output, TensorSpec
from minitvm.export.c import export
from minitvm.export.c.names import RESERVED, comment, identifier, quoted, unique
from minitvm.export.c.program_names import program_name, reasons
from minitvm.export.c.project import project
from minitvm.expr import DType, SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.tools.cli import main
from minitvm.tools.cli.mistakes import for_command_line
from tests.export.c.programs import EQUAL, STRICT, call, check, needs_gcc, written
from tests.export.c.test_failures import open_graph, stateful_graph

NAMES = st.text(max_size=12) | st.sampled_from(sorted(RESERVED)) | st.text("aB_1.", max_size=4)


@given(st.lists(NAMES, max_size=6))
def test_identifiers_are_legal_and_differ(texts: list[str]) -> None:
    names = unique(texts, ["arena"])
    assert len({*names, "arena"}) == len(texts) + 1
    for name in names:
        assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9]*(_[a-zA-Z0-9]+)*_?", name) and name not in RESERVED
        assert len(name.rstrip("0123456789_")) == 1 or name.upper() != name or name.endswith("_")


def test_identifiers_resemble_names() -> None:
    names = ["input.1", "1", "größe", "int", "EOF", "X", "I", "日本", "a__b"]
    assert list(map(identifier, names)) == [
        "input_1", "value_1", "groe", "int_", "EOF_", "X", "I_", "value", "a_b",
    ]  # fmt: skip


@given(st.text(max_size=20))
def test_texts_stay_inside_of_literals_and_comments(text: str) -> None:
    assert re.fullmatch(r'"(?:[^"\\\n]|\\.)*"', quoted(text))
    assert "*/" not in comment(text) and "\n" not in comment(text)


def weighted_graph() -> Graph:
    b = GraphBuilder("weighted")
    x = b.input("x", (8, 64))
    return b.build([b.op("nn.dense", x, b.constant(np.linspace(-1, 1, 32 * 64).astype(np.float32).reshape(32, 64)))])


@needs_gcc
@pytest.mark.parametrize("form", ["bin", "incbin", "array"])
def test_make_builds_and_checks_each_form_of_weights(form: str, tmp_path: Path) -> None:
    folder = written(weighted_graph(), tmp_path / "net", weights=form, name="dense")
    files = {"bin": {".bin"}, "incbin": {".bin", ".S"}, "array": {".c"}}[form]
    assert {path.suffix for path in folder.glob("dense_weights.*")} == files
    assert call("make", "-s", "check", "CFLAGS=-O1 -march=native", folder=folder) == EQUAL
    call("make", "-s", "CXXFLAGS=-O0 -Werror", "CFLAGS=-O1 -march=native", folder=folder)
    assert call("./example", folder=folder).startswith("dense: 256 elements: ")


@needs_gcc
@pytest.mark.parametrize(("arch", "rounded"), [("", "WRONG"), ("-arch=cortex-m4", "within 0.0001 of the largest")])
def test_the_test_says_what_it_compared(arch: str, rounded: str, tmp_path: Path) -> None:
    """Kernels for a CPU without an instruction for each `fma` may differ in rounding, if the C library rounds twice."""
    folder = written(weighted_graph(), tmp_path / "net", target=f"cpu {arch}")
    results = np.fromfile(folder / "check/output_0_run_0.bin", np.float32)
    for factor, text in ((1, EQUAL), (1 + 2**-18, rounded), (1.5, "WRONG")):
        (results * np.float32(factor)).tofile(folder / "check/output_0_run_0.bin")
        done = subprocess.run(
            ["make", "-s", "check", "CC=gcc", "CFLAGS=-O1", "RUN="],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1].startswith(text.strip()) and (done.returncode != 0) == (text == "WRONG")
    assert "output 0: 256 of 256 elements differ" in done.stdout


@needs_gcc
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_builds_and_checks(tmp_path: Path) -> None:
    folder = written(weighted_graph(), tmp_path / "net", weights="incbin")
    call("cmake", "-S", ".", "-B", "build", folder=folder)
    call("cmake", "--build", "build", folder=folder)
    assert "100% tests passed" in call("ctest", "--test-dir", "build", folder=folder)


CLASS = """
#include "net.hpp"
#include <iostream>

int main()
{
    net::Model model;
    const std::vector<float> x(24, 1.5f);
    auto refused = [](auto call) {
        try { call(); }
        catch (const net::Error &error) { std::cout << error.status % 16 << ' ' << error.what() << '\\n'; }
    };
    refused([&] { model.set_input("z", x); });
    refused([&] { model.set_input("x", std::vector<double>(24)); });
    refused([&] { model.set_size("m", 3); });
    refused([&] { model.run(); });
    model.set_size("n", 6);
    refused([&] { model.run(); });
    model.set_input("x", x);
    model.set_input("index", std::vector<int64_t>{0, 1, 2});
    model.run();
    refused([&] { model.get_output<int>("take"); });
    refused([&] { model.get_output_shape("none"); });
    std::cout << model.get_output<float>("take")[11] << ' ' << model.get_output_shape("take")[1] << '\\n';
}
"""

CLASS_TEXTS = """\
0 net has no input z
0 x: wrong type of elements
0 net has no size m
6 topk topk_0 does not take these sizes: n >= 6 must hold
0 x: 0 elements, wanted 24
0 take: wrong type of elements
0 net has no output none
2.5 4
"""


@needs_gcc
def test_the_class_reports_mistakes(tmp_path: Path) -> None:
    arrays = {"x": np.ones((6, 4), np.float32), "index": np.array([0, 1, 2])}
    folder = written(open_graph(), tmp_path / "net", inputs=arrays)
    (folder / "main.cpp").write_text(CLASS)
    call("gcc", "-std=c11", *STRICT, "-c", "net.c", folder=folder)
    call("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.cpp", "net.o", "-lm", folder=folder)
    assert call("./main", folder=folder) == CLASS_TEXTS


def counting_graph() -> Graph:
    """Two numbers that begin as 5 and 7, and grow by 1 in each run."""
    b = GraphBuilder("counts")
    count = b.input("count", (2,), "int32")
    return b.build(b.op("copy", count), {count: b.op("add", count, 1)}, {count: np.array([5, 7], np.int32)})


COUNTING = """\
#include "net.hpp"
#include <iostream>

int main()
{
    net::Model model%s;
    for (int run = 0; run < 3; ++run) {
        model.run();
        for (std::int32_t count : model.get_output<std::int32_t>("copy"))
            std::cout << count << ' ';
        if (run == 1)
            model.reset();
    }
}
"""


@needs_gcc
@pytest.mark.parametrize(("form", "argument"), [("array", ""), ("array", '("w.bin")'), ("bin", '("net_weights.bin")')])
def test_the_class_begins_with_first_values(form: str, argument: str, tmp_path: Path) -> None:
    folder = written(counting_graph(), tmp_path / "net", weights=form)
    (folder / "w.bin").write_bytes(project(counting_graph(), weights="bin")["net_weights.bin"])
    (folder / "main.cpp").write_text(COUNTING % argument)
    sources = [path.name for path in folder.glob("net*.c")]
    call("gcc", "-std=c11", *STRICT, "-c", *sources, folder=folder)
    objects = [f"{name[:-2]}.o" for name in sources]
    call("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.cpp", *objects, "-lm", folder=folder)
    assert call("./main", folder=folder) == "5 7 6 8 5 7 "


@needs_gcc
@pytest.mark.parametrize("graph", [open_graph, stateful_graph, counting_graph])
def test_each_compiler_accepts_all_files_without_warnings(graph: Any, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    b = graph()
    arrays = {"x": np.ones((6, 4), np.float32), "index": np.array([0, 1, 2])} if graph is open_graph else None
    written(b, folder, inputs=arrays)
    for compiler in ("gcc", "clang"):
        if shutil.which(compiler):
            call(
                compiler,
                "-std=c11",
                *STRICT,
                "-Wpedantic",
                "-c",
                *map(os.path.basename, folder.glob("*.c")),
                folder=folder,
            )
            call(compiler, "-std=c11", *STRICT, "-DNET_STATIC_ARENA", "-ffreestanding", "-c", "net.c", folder=folder)
    for compiler in ("g++", "clang++"):
        if shutil.which(compiler):
            call(
                compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "example.cpp", folder=folder
            )


def test_the_same_model_gives_the_same_bytes() -> None:
    assert project(weighted_graph()) == project(weighted_graph())


def test_a_module_is_exported_as_it_is(tmp_path: Path) -> None:
    module = minitvm.build(weighted_graph(), threads=1)
    assert project(module)["net.c"] == project(weighted_graph())["net.c"] == project(module.executable)["net.c"]
    module.export(tmp_path / "net.mtvm", key=b"sixteen bytes or more")
    loaded = minitvm.runtime.load(tmp_path / "net.mtvm", key=b"sixteen bytes or more")
    assert project(loaded) == project(module)


def with_engine() -> Executable:
    spec = TensorSpec("y", DType("float32"), (4,))
    step = CallExternal("numpy.zeros", (Output(0),), ("w",), (spec,))
    return Executable("external", "cpu", (), (spec,), (), (), (), (step,))


def guarded() -> Graph:
    """A graph that takes at least 1000 rows, which no random input has."""
    b = GraphBuilder("long")
    return b.build(list(b.op("topk", b.input("x", (SizeVar("n"), 4)), k=1000, axis=0)))


@pytest.mark.parametrize(
    ("model", "options", "text"),
    [
        (weighted_graph, {"weights": "zip"}, "weights='zip': wanted one of auto, bin, incbin, array"),
        (weighted_graph, {"name": "int"}, "the name 'int' of a C program\n  wanted: letters, digits and single _"),
        (weighted_graph, {"name": "a-b"}, "the name 'a-b' of a C program"),
        (weighted_graph, {"name": None}, "the name None of a C program"),
        (weighted_graph, {"weights": None}, "weights=None: wanted one of auto, bin, incbin, array"),
        (weighted_graph, {"inputs": 3}, "weighted as C: wanted inputs={name: array}, found int"),
        (weighted_graph, {"target": "opencl"}, "C\n  wanted: a target that is a CPU\n  found:  opencl\n"),
        (weighted_graph, {"target": "cpu -arch=wasm"}, "C\n  wanted: a CPU for which gcc compiles\n  found:  cpu -"),
        (weighted_graph, {"inputs": {"y": 1}}, "weighted as C: wanted inputs x, found y"),
        (with_engine, {}, "external as C\n  wanted: steps that call minitvm's kernels for one CPU\n"),
        (guarded, {}, "long as C\n  wanted: inputs for the test of the program\n  found:  random inputs are refused"),
    ],
)  # fmt: skip
def test_refusals(model: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(MinitvmError) as caught:
        project(model(), **options)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(("names", "reason"), [
    ("check Check example Makefile", "the folder has a file"),
    ("test all install clean help package", "make or CMake has a target"),
    ("m math string stdint pthread immintrin", "(make or CMake has a target|is a header of the system)"),
    ("abs sinf size_t time printf strtod_l pthread_create std isnan lround fputwc timespec", "C or C\\+\\+ declares"),
    ("NULL EOF INT64_MAX NET I", "may be a macro"),
    ("namespace int linux", "a word of C or C"),
])  # fmt: skip
def test_names_of_tools_and_libraries_are_refused(names: str, reason: str) -> None:
    for name in names.split():
        with pytest.raises(InputError, match=reason):
            project(weighted_graph(), name=name)


def test_other_names_are_accepted() -> None:
    names = (
        "net tokenizer isolated memory_net stress timely clock_reader add mathy checker tests Model n N logits sinus"
    )
    assert [program_name(name) for name in names.split()] == names.split()


@needs_gcc
def test_cpp_has_namespaces_with_these_names(tmp_path: Path) -> None:
    """Whatever standard headers of C++ declare is refused: no namespace can have a name that a declaration has."""
    headers = "".join(f"#include <{name}>\n" for name in ("fstream", "iostream", "memory", "string", "cmath"))
    (tmp_path / "all.cpp").write_text(headers)
    words = set(re.findall(r"(?m)^extern [^(]*?\b([a-z]\w*) \(", call("g++", "-E", "-P", "all.cpp", folder=tmp_path)))
    accepted = [word for word in sorted(words) if "__" not in word and not list(reasons(word))]
    spaces = "".join(f"namespace {word} {{}}\n" for word in accepted)
    (tmp_path / "spaces.cpp").write_text(headers + spaces)
    call("g++", "-fsyntax-only", "spaces.cpp", folder=tmp_path)


@needs_gcc
@pytest.mark.parametrize(("source", "to"), [("float32", "uint64"), ("float64", "uint64"), ("float16", "uint32")])
def test_random_inputs_of_unsigned_casts_have_results(source: str, to: str, tmp_path: Path) -> None:
    b = GraphBuilder("unsigned")
    graph = b.build([b.op("cast", b.input("x", (64,), source), dtype=to)])
    check(graph, tmp_path / "net")
    assert (np.fromfile(tmp_path / "net" / "check" / "input_0.bin", source) >= 0).all()


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("text")
    with pytest.raises(InputError, match=r"exists\n  wanted: a new or empty folder"):
        export(weighted_graph(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_command_writes_a_folder_and_explains_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    from minitvm.frontends.onnx.export.to_onnx import to_onnx

    monkeypatch.chdir(tmp_path)
    model = to_onnx(weighted_graph())
    Path("dense.onnx").write_bytes(model.SerializeToString())
    assert main(["export", "dense.onnx", "--as", "c", "-o", "out", "--name", "dense"]) == 0
    result = (
        r"compiled in \d+\.\d\d s: out, 0\.\d MB\nmemory of the program, in bytes: weights [\d,]+(, stack [\d,]+)?\n"
    )
    assert re.fullmatch(result, capsys.readouterr().out)
    assert {"dense.h", "dense.c", "dense.hpp", "check.c", "Makefile"} <= {path.name for path in Path("out").iterdir()}
    no_cpu = "C\n  wanted: a target that is a CPU"
    mistakes = {
        "--as c -o out": "out exists\n  wanted: a new or empty folder\n  try:    another name, or remove it",
        "--as d -o new": "--as d: wanted mtvm",
        "--as mtvm -o new --name net": "--name goes with --as c",
        "--as c -o new --arch sm_80": "--arch goes with --as mtvm",
        "--as c -o new --weights zip": "weights='zip': wanted one of auto, bin, incbin, array",
        "--as c -o new --target opencl": f"{no_cpu}\n  found:  opencl\n  try:    --target cpu",
        "--as c -o dense.onnx/new": "dense.onnx/new cannot be written",
    }
    for options, text in mistakes.items():
        assert main(["export", "dense.onnx", *options.split()]) == 2
        assert capsys.readouterr().err.startswith(f"minitvm export: {text}")
    assert not Path("new").exists()


def test_hints_name_options_of_the_command_line() -> None:
    text = (
        "Range\n  try:    params={'a': ...}\n          max_length=...: a bound\n          target=\"cpu\"\n          x=1"
    )
    lines = ["  try:    in Python: params={'a': ...}", "          in Python: max_length=...: a bound"]
    assert for_command_line(text).split("\n")[1:] == [*lines, "          --target cpu", "          x=1"]
