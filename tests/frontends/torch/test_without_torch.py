"""What of PyTorch's importer needs no PyTorch: its registry, and the error where torch is not installed."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

import minitvm
from minitvm.errors import MissingExtra
from minitvm.frontends.torch import ops, registry
from minitvm.topi import registry as operators


def test_without_torch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'minitvm[torch]'")):
        minitvm.from_torch(None)


def test_operators_are_named_by_overload_and_refused_or_converted() -> None:
    names = list(registry.converters())
    assert len(names) > 200
    assert all(re.fullmatch(r"(prims\.)?\w+\.\w+", name) for name in names)
    assert not {*names, *(name.split(".")[0] for name in names)} & set(registry.REFUSED)
    assert registry.refusal("aten.bincount.default") == "the shape of its output depends on the data"
    assert registry.refusal("custom.bincount.default") is None


def test_converters_write_operators_that_exist() -> None:
    """A misspelt name would otherwise be found by a model that has the operator, alone."""
    known, written = set(operators.names()), set()
    for file in Path(ops.__file__).parent.glob("*.py"):
        for item in ast.walk(ast.parse(file.read_text())):
            if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr == "op":
                written.update(c.value for c in item.args[:1] if isinstance(c, ast.Constant))
            if isinstance(item, ast.Dict):  # tables of names
                written.update(
                    c.value for c in ast.walk(item)
                    if isinstance(c, ast.Constant) and str(c.value).startswith(("nn.", "image."))
                )  # fmt: skip
    assert len(written) > 60 and written <= known, written - known


def test_importing_the_importer_loads_no_torch() -> None:
    code = "import sys, minitvm.frontends.torch.ops, minitvm.frontends.torch.loading; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_entry_point_of_torch_compile_names_a_function() -> None:
    root = Path(minitvm.__file__).parent.parent
    parser = configparser.ConfigParser()
    parser.read(root / "setup.cfg")
    name, _, place = parser["options.entry_points"]["torch_dynamo_backends"].strip().partition(" = ")
    module, _, function = place.partition(":")
    tree = ast.parse((root / f"{module.replace('.', '/')}.py").read_text())
    assert name == "minitvm"
    assert function in {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}
