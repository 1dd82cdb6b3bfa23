"""The walls of the house, in three sentences:

    1. The spine imports no machine, no frontend and no tool.
    2. A machine imports the spine and its shared folder, and no other machine.
    3. A plug-in imports the spine, and another plug-in or machine only through its public name.

`MACHINES` and `PLUGINS` name the folders that are no spine. Inside of the spine `MAY_IMPORT` says who leans on whom: a
row names a package or a top-level module and what it may import besides itself; a name covers everything beneath it
(`tir` also covers `tir.nodes`). The rows stand in the order in which a model passes through them, reversed: each leans
on those above it. docs/house.svg is drawn from these tables. Every import counts, wherever it stands:

    at module level        obeys the table
    under TYPE_CHECKING    obeys it too: it loads nothing, but it is knowledge all the same
    inside a function      obeys it too, but for the lazy doors declared below
    import_module("...")   counts as an import where it stands

A walk over the source misses what an `__init__` pulls in, so each layer is also imported in a process of its own, and
what that loaded is held against the same tables.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A machine, and the shared folders that it may import besides the spine.
MACHINES: dict[str, str] = {
    "machines.simd": "",
    "machines.gpu": "machines.simd",
    "machines.scratchpad": "",
    "machines.cpu": "machines.simd",
    "machines.cuda": "machines.simd machines.gpu",
    "machines.opencl": "machines.simd machines.gpu",
    "machines.vta": "machines.scratchpad",
    "machines.gemmini": "machines.scratchpad",
    "machines.interpreter": "",
}

# The other plug-ins. The public names of a plug-in or machine are its package, what its `__init__` defines, and the
# modules that its `__all__` lists.
PLUGINS = [
    "frontends", "compat.tvm", "quantize", "tune", "export", "engines", "tools.cli", "tools.explore", "tools.film",
    "tools.language", "tools.models", "tools.profile", "tools.web",
]  # fmt: skip

FOUNDATION = (
    "errors global_functions free_memory forks scratch events absent doors notebook plots target expr backend store"
    " workers garbage"
)
NODES = (
    "errors events free_memory notebook expr te.nodes tir.nodes tir.all_reduce tir.meanings graph.nodes"
    " executable.nodes machines.vta.config machines.vta.isa"
)
MIDDLE = f"{FOUNDATION} arith tir te topi strategy graph"
SPINE = f"{MIDDLE} executable runtime codegen importing script build_options build link lowering records durations"

MAY_IMPORT: dict[str, str] = {
    # what everything stands on
    "errors": "",
    "events": "errors",
    "global_functions": "errors",
    "free_memory": "errors",
    "absent": "",
    "doors": "",
    "forks": "",
    "scratch": "",
    "durations": "",
    "notebook": "",
    "plots": "errors",
    "expr": "errors forks",
    "target": "errors",
    "backend": "errors target",
    "store": "forks",
    "garbage": "",
    "workers": "errors forks",
    # what is needed to run a saved artifact, and nothing more
    "executable": FOUNDATION,
    "runtime": f"{FOUNDATION} executable",
    # the compiler
    "arith": "errors expr",
    "tir": f"{FOUNDATION} arith",
    "codegen": f"{FOUNDATION} arith tir",
    "te": f"{FOUNDATION} arith tir",
    "topi": f"{FOUNDATION} arith tir te",
    "strategy": f"{FOUNDATION} arith tir te topi",
    "graph": f"{FOUNDATION} arith tir te topi strategy",
    "importing": "errors expr graph store",
    "build_options": "errors expr",
    "script": f"{FOUNDATION} tir",
    # the one place that knows the whole way: build; lowering, from operators to kernels; link, from there on
    "lowering": f"{MIDDLE} executable",
    "link": f"{MIDDLE} executable lowering",
    # what was measured: its decisions are what a build takes
    "records": f"{MIDDLE} executable lowering",
    "build": f"{MIDDLE} executable runtime codegen importing build_options link lowering records",
    # the folder of machines: `target` finds them by looking into it
    "machines": "",
    "compat": "",
    "tools": "",
    # every plug-in; of an accelerator, what the oracle reads
    "machines.scratchpad.memory": "",
    "machines.vta.config": "errors backend target machines.scratchpad.memory",
    "machines.vta.isa": "errors backend target machines.vta.config",
    **dict.fromkeys([*MACHINES, *PLUGINS], SPINE),
    "__main__": "tools.cli",
    # minitvm/__init__.py itself: the public names, lazily
    "": f"{SPINE} {' '.join(PLUGINS)}",
    # The oracle reads node definitions. If it shared a simplifier with what it judges, it would agree with its bugs.
    "reference": NODES,
    # Strategies for Hypothesis also draw schedules, graphs and streams of instructions, through the public Schedule,
    # GraphBuilder and Stream, and `draw_pairs` lowers what it has scheduled.
    "reference.strategies": (
        f"{NODES} te tir.schedule tir.script tir.analysis.threads tir.transform graph machines.vta.stream reference"
    ),
}

# Doors through the walls, open only inside a function: (importer, imported, why).
LAZY_DOORS = [
    ("tir.schedule", "reference", "Schedule(..., verify=True) compares each step with the interpreter"),
    ("reference", "topi.registry", "an operator without a meaning in NumPy has only its own formula"),
    ("reference", "te", "... over placeholders"),
    ("reference", "runtime.externals", "a Python function that a graph calls is its own meaning"),
    ("reference", "te.printer", "a counterexample prints tensor expressions as Python"),
    ("tools.film", "reference", "a film is what the interpreter does while it runs a program"),
    ("tools.cli", "reference", "`minitvm check` compares every level with its interpreter"),
    ("tools.explore", "reference", "each step has its counts and the oracle's verdict"),
    (
        "quantize",
        "reference",
        "a network is calibrated on a few samples by its interpreter, which needs no kernels",
    ),
    ("machines.vta.program", "reference", "the accelerator is simulated: its interpreter is the machine"),
    ("machines.interpreter.program", "reference", "the interpreter is the machine"),
    ("machines.cuda.runtime.simulator", "reference.meaning", "what a simulated thread computes, the oracle defines"),
    ("machines.cuda.runtime.simulated_warps", "reference.meaning", "and what the threads of a warp exchange"),
]

# What a package loads because it is in a folder: it does not know what is there, so no import of its source says so.
# Of a machine, `backend` reads its `__init__` with the back end and what describes the machine.
FOUND_IN_A_FOLDER = {
    "backend": "machines.gemmini.config machines.scratchpad.memory machines.vta.machine "
    + " ".join(f"machines.{path.parent.name}.__init__" for path in sorted(ROOT.glob("minitvm/machines/*/__init__.py"))),
    "tir": "compat",  # primitives that only TVM's scripts call
}

# Inside of tir: questions about programs stand below those who ask, and schedules and passes do not know each other.
NEVER = [
    ("tir.analysis", "tir.schedule"),
    ("tir.analysis", "tir.transform"),
    ("tir.transform", "tir.schedule"),
    ("tir.schedule", "tir.transform"),
    ("machines.gemmini.interpreter", "tir"),  # what is judged, and by whom
    ("machines.gemmini.interpreter", "machines.gemmini.timing"),
]

# Libraries that only these may import, lazily or not. A library that is not listed is free, if it is a core dependency.
ONLY_IMPORTED_BY: dict[str, str] = {
    "sympy": "arith",
    "islpy": "arith",
    "z3": "arith",
    "numba": "runtime machines",
    "llvmlite": "runtime machines export.wasm",
    "onnx": "frontends engines.onnx_text tools.models build tools.cli",
    "onnxruntime": "engines.onnxruntime",
    "openvino": "engines.openvino",
    "ncnn": "engines.ncnn",
    "hypothesis": "reference.strategies",
    "tokenizers": "tools.language",
    "jinja2": "tools.language",
    "starlette": "tools.language",
    "uvicorn": "tools.language",
    "torch": "frontends.torch",
    "sqlalchemy": "records",
    "distributed": "tune.farm",
}

# Installed with minitvm itself. Anything else is an extra: imported inside a function, or in a `try` that turns its
# absence into one sentence.
CORE_LIBRARIES = {"numpy", "numba", "llvmlite", "sympy", "rich", "hypothesis", "ml_dtypes"}

# Modules that are of no use without an extra, and that nothing else imports at module level.
NEEDS_EXTRA = {"frontends.onnx.backend": "onnx", "frontends.torch.compile": "torch"}

# What a fresh process must not have loaded after importing a layer, whatever path it came by. Beside these, no layer
# may load a part of minitvm that its row does not reach.
COMPILER_LIBRARIES = "sympy islpy z3 onnx numba"
TRANSFORMS = (
    "minitvm.arith minitvm.tir.schedule minitvm.tir.transform minitvm.graph.passes minitvm.topi minitvm.strategy "
    "minitvm.codegen minitvm.runtime minitvm.build"
)
NOT_LOADED_BY: dict[str, str] = {
    "": f"{COMPILER_LIBRARIES} llvmlite numpy rich",
    "errors": f"{COMPILER_LIBRARIES} llvmlite numpy rich",
    "events": COMPILER_LIBRARIES,
    "expr": COMPILER_LIBRARIES,
    "target": COMPILER_LIBRARIES,
    "executable": COMPILER_LIBRARIES,
    "runtime": COMPILER_LIBRARIES,
    "tir.nodes": f"{COMPILER_LIBRARIES} {TRANSFORMS}",
    "te.nodes": f"{COMPILER_LIBRARIES} {TRANSFORMS}",
    "graph.nodes": f"{COMPILER_LIBRARIES} {TRANSFORMS}",
    "arith": "onnx numba islpy z3",
    "tir": "onnx numba",
    "codegen": "onnx numba",
    "te": "onnx numba",
    "topi": "onnx numba",
    "strategy": "onnx numba",
    "graph": "onnx numba",
    "frontends": "onnx numba",
    "records": "onnx numba sqlalchemy",
    "tune": f"{COMPILER_LIBRARIES} sqlalchemy matplotlib",
    "tune.runner": "sympy islpy onnx sqlalchemy matplotlib minitvm.tir.schedule minitvm.strategy",
    "tools.cli": f"{COMPILER_LIBRARIES} sqlalchemy",
    "reference": f"{COMPILER_LIBRARIES} hypothesis {TRANSFORMS}",
}


# --- reading the imports ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module. `where` is "module", "type_checking", "function" or "guarded" (in a try for ImportError)."""

    importer: str
    imported: str
    where: str
    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.importer or 'minitvm'} imports {self.imported} ({self.where})"


def covers(prefix: str, module: str) -> bool:
    """Whether `module` is `prefix` or beneath it."""
    return module == prefix or module.startswith(prefix + ".")


def ours(module: str) -> str | None:
    """A module's name below minitvm ("" for minitvm itself); None for one that is not ours."""
    if covers("minitvm", module):
        return module[len("minitvm.") :]
    # Only ever right as minitvm.reference: under its own name it would be loaded twice.
    return module if covers("reference", module) else None


class ImportReader(ast.NodeVisitor):
    """Collects every import of one file with the kind of place where it stands."""

    def __init__(self, tree: Path, file: Path) -> None:
        self.tree = tree
        self.file = file.relative_to(tree)
        parts = self.file.with_suffix("").parts
        parts = parts if parts[0] == "minitvm" else ("minitvm", *parts)
        self.package = ".".join(parts[:-1])
        self.importer = ours(self.package if parts[-1] == "__init__" else ".".join(parts)) or ""
        self.where = ["module"]
        self.found: list[Import] = []

    def add(self, module: str, line: int) -> None:
        self.found.append(Import(self.importer, module, self.where[-1], self.file, line))

    def is_module(self, name: str) -> bool:
        path = self.tree.joinpath(*name.split("."))
        return path.is_dir() or path.with_suffix(".py").is_file()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parents = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
            base = ".".join([*parents, *([node.module] if node.module else [])])
        for alias in node.names:
            name = f"{base}.{alias.name}"
            if base == "minitvm":
                name = f"minitvm.{PUBLIC_NAMES.get(alias.name, alias.name)}"
                if alias.name.startswith("__") or alias.name == "*":
                    continue
            self.add(name if base == "minitvm" or self.is_module(name) else base, node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("import_module", "__import__") and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("."):
                self.add(name.value, node.lineno)
        self.generic_visit(node)

    def inside(self, where: str, nodes: list[ast.stmt]) -> None:
        # A function's body stays a function's, whatever stands around the import in it.
        self.where.append("function" if self.where[-1] == "function" else where)
        for node in nodes:
            self.visit(node)
        self.where.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.inside("function", node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.inside("function", [ast.Expr(node.body)])

    def visit_If(self, node: ast.If) -> None:
        test = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        self.inside("type_checking" if test == "TYPE_CHECKING" else self.where[-1], node.body)
        self.inside(self.where[-1], node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        handled = {name.id for handler in node.handlers for name in ast.walk(handler.type or ast.Pass())
                   if isinstance(name, ast.Name)}  # fmt: skip
        guarded = bool(handled & {"ImportError", "ModuleNotFoundError"})
        self.inside("guarded" if guarded else self.where[-1], node.body)
        for part in (*(handler.body for handler in node.handlers), node.orelse, node.finalbody):
            self.inside(self.where[-1], part)


# A link to the lessons, which wheels carry as data.
DATA = {"lessons"}

# Names that `from minitvm import ...` gives and that are no modules, by the module that defines them.
PUBLIC_NAMES = {
    "IRModule": "compat.tvm.ir", "from_source": "script", "lower": "build", "compile": "build", "cpu": "runtime",
    "device": "runtime",
}  # fmt: skip


def read_imports(tree: Path) -> list[Import]:
    """Every import in minitvm/ and reference/ under `tree`; those of this project are read once."""
    return _our_imports() if tree == ROOT else _imports_of(tree)


@cache
def _our_imports() -> list[Import]:
    return _imports_of(ROOT)


def _imports_of(tree: Path) -> list[Import]:
    found: list[Import] = []
    for top in ("minitvm", "reference"):
        for file in sorted((tree / top).rglob("*.py")):
            if file.relative_to(tree).parts[:2] == ("minitvm", "reference"):
                continue  # the link to reference/
            reader = ImportReader(tree, file)
            reader.visit(ast.parse(file.read_text(), str(file)))
            found += reader.found
    return found


# --- holding them against the table -------------------------------------------------------------------------------


def row_of(module: str) -> str | None:
    """The row that a module of ours belongs to: the longest that covers it; None if it has none."""
    rows = [row for row in MAY_IMPORT if (covers(row, module) if row else module == "")]
    return max(rows, key=len, default=None)


def any_covers(prefixes: str, module: str) -> bool:
    return any(covers(prefix, module) for prefix in prefixes.split())


def plugin_of(module: str) -> str | None:
    """The machine or other plug-in that a module of ours is in; None for the spine, the oracle and minitvm itself."""
    return next((name for name in (*MACHINES, *PLUGINS) if covers(name, module)), None)


def public_names(package: Path) -> list[str]:
    """The names that the `__all__` of a package lists; none for a module, and none without `__all__`."""
    init = package / "__init__.py"
    if init.is_file():
        for node in ast.parse(init.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if [getattr(target, "id", "") for target in targets] == ["__all__"]:
                return list(ast.literal_eval(node.value))
    return []


def is_public(tree: Path, plugin: str, module: str) -> bool:
    """Whether a module is the package of a plug-in, or listed in its `__all__`, package by package on the way to it."""
    place = tree.joinpath("minitvm", *plugin.split("."))
    for name in module[len(plugin) :].strip(".").split("."):
        if name and name not in public_names(place):
            return False
        place /= name
    return True


def broken_sentence(tree: Path, found: Import, module: str) -> str | None:
    """Which of the three sentences an import of a plug-in breaks; None if it breaks none."""
    imported, importer = plugin_of(module), plugin_of(found.importer)
    if imported is None or imported == importer or found.importer in ("", "__main__"):
        return None
    if importer is None:
        return f"{found}: the spine imports no machine, no frontend and no tool"
    if importer in MACHINES:
        shared = MACHINES[importer].split()
        if imported in shared:
            return None
        return f"{found}: a machine imports the spine and its shared folder ({', '.join(shared) or 'none'}) only"
    if is_public(tree, imported, module):
        return None
    return f"{found}: a plug-in imports {imported} only through its public name, minitvm.{imported} and its `__all__`"


def broken_wall(tree: Path, found: Import) -> str | None:
    """What is wrong with one import, in words; None if it is allowed."""
    row = row_of(found.importer)
    if row is None:
        top = found.importer.split(".")[0]
        return f"{found.file}: {top} has no row in MAY_IMPORT (tests/test_architecture.py): add what it may import"
    module = ours(found.imported)
    if module is None:
        return broken_library_wall(found)
    if covers("reference", found.imported):
        return f"{found}: write minitvm.reference, or it is loaded twice"
    if module == "":
        return f"{found}: import the module that is meant, not everything"
    if (row and covers(row, module)) or any_covers(MAY_IMPORT[row], module):
        return None
    if plugin_of(module) is not None and not covers("reference", found.importer):
        return broken_sentence(tree, found, module)
    if found.where == "function" and any(
        covers(importer, found.importer) and covers(imported, module) for importer, imported, _ in LAZY_DOORS
    ):
        return None
    return f"{found}: {row or 'minitvm'} may import only: {MAY_IMPORT[row] or 'nothing'}"


def broken_library_wall(found: Import) -> str | None:
    library = found.imported.split(".")[0]
    if library in ONLY_IMPORTED_BY and not any_covers(ONLY_IMPORTED_BY[library], found.importer):
        needed = NEEDS_EXTRA.get(found.importer)
        if needed != library:
            return f"{found}: {library} is for {ONLY_IMPORTED_BY[library]} only"
    if library in sys.stdlib_module_names or library in CORE_LIBRARIES or found.where != "module":
        return None
    if any(covers(module, found.importer) and library == extra for module, extra in NEEDS_EXTRA.items()):
        return None
    return f"{found}: {library} is an extra; import it inside a function, and raise errors.missing_extra without it"


def broken_walls(tree: Path) -> list[str]:
    messages = [message for found in read_imports(tree) if (message := broken_wall(tree, found))]
    return list(dict.fromkeys(messages)) + [
        f"{path.relative_to(tree)} has no row in MAY_IMPORT (tests/test_architecture.py): add what it may import"
        for path in sorted((tree / "minitvm").iterdir())
        if path.name not in DATA
        and (path.suffix == ".py" or any(path.rglob("*.py")))
        and path.stem != "__init__"
        and row_of(path.stem) is None
    ]


def test_every_import_is_in_the_table() -> None:
    assert len(read_imports(ROOT)) > 20, "the walk found hardly an import: it does not see the source"
    assert broken_walls(ROOT) == []


@pytest.mark.parametrize(("importer", "imported"), NEVER)
def test_neighbours_do_not_know_each_other(importer: str, imported: str) -> None:
    found = [
        i for i in read_imports(ROOT) if covers(importer, i.importer) and covers(f"minitvm.{imported}", i.imported)
    ]
    assert [str(i) for i in found] == []
    assert any(covers(importer, i.importer) for i in read_imports(ROOT)), "a row for what is not there"


def test_the_table_contradicts_itself_nowhere() -> None:
    """No two rows may import each other, and whatever a row names has a row itself."""
    for row, allowed in MAY_IMPORT.items():
        for name in allowed.split():
            assert row_of(name) is not None, f"{row} may import {name}, which has no row"
            back = MAY_IMPORT[name.split(".")[0]].split()
            assert row.split(".")[0] == name.split(".")[0] or row not in back, f"{row} and {name} import each other"


# --- what importing a layer loads ---------------------------------------------------------------------------------


def reach(row: str) -> set[str]:
    """The prefixes of all that a row may load: what it may import, what that may import, and so on."""
    seen: set[str] = set()
    waiting = [row]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += MAY_IMPORT[row_of(name) or ""].split()
    return seen | {part for name in seen for part in FOUND_IN_A_FOLDER.get(name, "").split()}


def loaded_by(tree: Path, modules: list[str]) -> set[str]:
    """The names in sys.modules of a fresh process that imported `modules` from `tree`."""
    code = f"import sys, importlib; sys.path.insert(0, {str(tree)!r})\n"
    code += "".join(f"importlib.import_module({module!r})\n" for module in modules) + "print(*sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MINITVM_VERIFY")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tree)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def loaded_beyond(tree: Path, layer: str, modules: list[str]) -> list[str]:
    """What importing `modules` of `layer` loads that it must not."""
    forbidden = NOT_LOADED_BY.get(layer, "")
    row = row_of(layer)
    assert row is not None
    # A package is loaded before any module in it, so whatever holds a reachable module may be loaded as well.
    reachable = reach(row) - {""}
    beyond = []
    for name in sorted(loaded_by(tree, modules)):
        module = ours(name)
        above = module and not any(covers(prefix, module) or covers(module, prefix) for prefix in reachable)
        told = bool(beyond) and covers(beyond[-1], name)
        if (above or any_covers(forbidden, name)) and not told:
            beyond.append(name)
    return beyond


@cache
def exists(layer: str) -> bool:
    path = ROOT.joinpath("minitvm", *layer.split("."))
    return (path / "__init__.py").is_file() or path.with_suffix(".py").is_file()


@pytest.mark.parametrize("layer", sorted({*MAY_IMPORT, *NOT_LOADED_BY} - {"reference", "reference.strategies"}))
def test_importing_a_layer_loads_nothing_above_it(layer: str) -> None:
    assert exists(layer), "a row for what is not there"
    assert loaded_beyond(ROOT, layer, [f"minitvm.{layer}" if layer else "minitvm"]) == []


def test_importing_the_whole_oracle_loads_node_definitions_only() -> None:
    names = [
        ".".join(("minitvm", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        for file in sorted((ROOT / "reference").rglob("*.py"))
    ]
    names = [name for name in names if not covers("minitvm.reference.strategies", name)]
    assert len(names) > 1
    assert loaded_beyond(ROOT, "reference", names) == []


# --- the walls themselves are tested: a planted illegal import is caught ------------------------------------------


def plant(tree: Path, **files: str) -> Path:
    """A tree with the given files: `tir__nodes` is minitvm/tir/nodes.py, `reference__te` is reference/te.py."""
    (tree / "minitvm").mkdir()
    (tree / "minitvm" / "__init__.py").touch()
    # Nodes that the planted imports name, so that they are known to be modules.
    files = {"tir__nodes": "", "te__nodes": "", "tir__schedule__state": "", "arith__simplify": ""} | files
    for name, text in files.items():
        parts = name.split("__")
        path = tree.joinpath(*(parts if parts[0] == "reference" else ["minitvm", *parts])).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    return tree


LAZILY = "def f():\n    "
TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "

LEGAL = {
    "downwards": ("tir__nodes", "from minitvm.expr import nodes\nfrom ..errors import report\n"),
    "within": ("tir__schedule__state", "from .. import nodes\nfrom ..nodes import For\n"),
    "lazy door": ("tir__schedule__state", LAZILY + "from minitvm.reference import check\n"),
    "cli may all": ("tools__cli__run", "from ... import build\nfrom minitvm import lower, __version__\n"),
    "nodes for the oracle": ("reference__tir", "from minitvm.tir.nodes import For\nfrom . import te\n"),
    "extra in a function": ("frontends__onnx", LAZILY + "import onnx\n"),
    "extra that is guarded": ("frontends__onnx", "try:\n    import onnx\nexcept ImportError:\n    onnx = None\n"),
    "shared folder": ("machines__cuda__a", "from ..simd.vectors import x\nfrom ..gpu import y\n"),
    "public names": ("tune__task", "from ..quantize import quantize\nfrom ..frontends import from_onnx\n"),
    "library of its own": ("reference__strategies", "import hypothesis\nfrom minitvm.tir.schedule import Schedule\n"),
}

ILLEGAL = {
    "upwards": ("expr__nodes", "from minitvm.tir import nodes\n", "expr may import only: errors"),
    "upwards, relative": ("expr__nodes", "from ..tir.nodes import For\n", "expr may import only: errors"),
    "upwards, from the package": ("expr__nodes", "from .. import tir\n", "expr may import only"),
    "upwards, for types": ("runtime__module", TYPES + "from ..tir.nodes import For\n", "type_checking"),
    "upwards, in a function": ("runtime__module", LAZILY + "from ..codegen import numba_cpu\n", "function"),
    "upwards, by name": ("runtime__module", LAZILY + "importlib.import_module('minitvm.tir')\n", "function"),
    "public name": ("tir__show", "from minitvm import lower\n", "tir may import only"),
    "everything": ("tir__show", "import minitvm as tvm\n", "not everything"),
    "the oracle": ("graph__passes__fold", LAZILY + "from minitvm.reference import graph\n", "graph may import only"),
    "the oracle, not lazily": ("tools__cli__a", "from minitvm.reference import check\n", "tools.cli may import only"),
    "the oracle twice": ("tools__cli__check", LAZILY + "from reference import check\n", "write minitvm.reference"),
    "oracle simplifies": ("reference__tir", "from minitvm.arith import simplify\n", "reference may import only"),
    "oracle schedules": ("reference__tir", "from ..tir.schedule import Schedule\n", "reference may import only"),
    "oracle takes the package": ("reference__tir", "from minitvm.tir import PrimFunc\n", "reference may import only"),
    "oracle uses sympy": ("reference__tir", LAZILY + "import sympy\n", "sympy is for arith only"),
    "extra at module level": ("frontends__onnx", "import onnx\n", "onnx is an extra"),
    "extra in the else": ("tools__models__a", "if 1:\n    pass\nelse:\n    import matplotlib.pyplot\n", "is an extra"),
    "spine to a machine": ("graph__fold", LAZILY + "from ..machines.cpu import x\n", "the spine imports no machine"),
    "spine to a tool": ("runtime__program", TYPES + "from ..tools.profile import y\n", "the spine imports no machine"),
    "spine to a frontend": ("build", "from .frontends.onnx import x\n", "the spine imports no machine, no frontend"),
    "machine to a machine": ("machines__cuda__a", "from ..cpu.runtime import x\n", "its shared folder (machines.simd"),
    "machine to a tool": ("machines__cuda__a", LAZILY + "from ...tune import x\n", "a machine imports the spine and"),
    "shared folder to a machine": ("machines__gpu__a", "from ..opencl import x\n", "a machine imports the spine and"),
    "past a public name": ("tune__task", "from ..quantize.quantization import x\n", "only through its public name"),
    "unknown package": ("relay__nodes", "x = 1\n", "relay has no row in MAY_IMPORT"),
    "unknown module": ("helpers", "import os\n", "helpers has no row in MAY_IMPORT"),
}


@pytest.mark.parametrize(("name", "text"), LEGAL.values(), ids=LEGAL)
def test_legal_import_passes(tmp_path: Path, name: str, text: str) -> None:
    assert broken_walls(plant(tmp_path, **{name: text})) == []


@pytest.mark.parametrize(("name", "text", "message"), ILLEGAL.values(), ids=ILLEGAL)
def test_planted_illegal_import_is_caught(tmp_path: Path, name: str, text: str, message: str) -> None:
    broken = broken_walls(plant(tmp_path, **{name: text}))
    assert broken, "the planted import was not seen"
    assert message in broken[0]


def test_planted_transitive_load_is_caught(tmp_path: Path) -> None:
    """What the walk cannot see, as the module's name is computed, the process does."""
    hidden = "import importlib\nimportlib.import_module('.'.join(('minitvm', 'codegen')))\nimport sqlite3 as onnx\n"
    plant(tmp_path, executable__nodes=hidden, codegen__numba_cpu="", runtime__module="from ..executable import nodes")
    assert broken_walls(tmp_path) == []
    assert loaded_beyond(tmp_path, "runtime", ["minitvm.runtime.module"]) == ["minitvm.codegen"]


def test_planted_library_is_caught(tmp_path: Path) -> None:
    plant(tmp_path, runtime__module="__import__('sym' + 'py')")
    assert loaded_beyond(tmp_path, "runtime", ["minitvm.runtime.module"]) == ["sympy"]
