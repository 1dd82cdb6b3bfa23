"""The project as a stranger meets it: what `make` prints, what is declared, what importing the package costs."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAKE_TARGETS = {"demo", "faces", "quick", "test", "test-full", "lint", "bench", "fuzz", "clean"}


def run_python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints for `code`; fails with its stderr if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_the_wheel_carries_every_file_of_the_lessons(setup_cfg: configparser.ConfigParser) -> None:
    """Through the link minitvm/lessons, as data: `minitvm lesson` works where the package was installed, too."""
    patterns = setup_cfg["options.package_data"]["minitvm"].split(",")
    carried = {path.resolve() for pattern in patterns for path in (ROOT / "minitvm").glob(pattern.strip())}
    git = subprocess.run(["git", "ls-files", "lessons"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {ROOT / line for line in git.stdout.splitlines()}
    assert len(files) > 100 and files <= carried


def test_the_wheel_carries_what_the_explorer_shows(setup_cfg: configparser.ConfigParser) -> None:
    folder = ROOT / "minitvm" / "tools" / "explore"
    carried = set(folder.glob(setup_cfg["options.package_data"]["minitvm.tools.explore"]))
    assert {path for path in (folder / "assets").iterdir() if path.is_file()} == carried
    assert folder / "assets" / "page.css" in carried


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_bare_make_lists_every_target_and_does_nothing() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    printed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True, env=environment).stdout
    listed = set(re.findall(r"^\s+make ([a-z-]+)", printed, re.MULTILINE))
    assert listed >= MAKE_TARGETS
    phony = set(re.findall(r"^\.PHONY: ([a-z-]+)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert listed == phony, "a target without a `## description` is one that nobody finds"


def test_every_environment_variable_is_documented() -> None:
    git = subprocess.run(["git", "ls-files", "*.py", "Makefile"], cwd=ROOT, capture_output=True, text=True, check=True)
    texts = [(ROOT / name).read_text() for name in git.stdout.splitlines()]
    used = {name for text in texts for name in re.findall(r"\bMINITVM_[A-Z_]+\b", text)}
    page = (ROOT / "docs" / "environment.md").read_text()
    # From `make fuzz` to its workers, and from `python -m tests.other_machines` to its tests.
    internal = {"MINITVM_FUZZ_FOUND", "MINITVM_TEST_ONE_CORE"}
    assert {name for name in used if f"`{name}`" not in page} == internal


def test_ci_runs_lint_and_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert "set -euo pipefail" in lines
    assert [line for line in lines if line.startswith("make ")] == ["make lint", "make test"]


def test_extras_name_only_extras_that_exist(setup_cfg: configparser.ConfigParser) -> None:
    extras = setup_cfg["options.extras_require"]
    for extra, requirements in extras.items():
        for named in re.findall(r"minitvm\[([^]]*)\]", requirements):
            missing = {name.strip() for name in named.split(",")} - set(extras)
            assert not missing, f"extra {extra} asks for {missing}, which setup.cfg does not define"


def test_extras_of_the_makefile_exist(setup_cfg: configparser.ConfigParser) -> None:
    stamps = set(re.findall(r"\$\(STAMPS\)/([a-z-]+)", (ROOT / "Makefile").read_text())) - {"models", "faces", "smollm"}
    assert stamps
    assert stamps <= set(setup_cfg["options.extras_require"])


def test_packages_include_the_linked_reference(setup_cfg: configparser.ConfigParser) -> None:
    """`find:` follows the link, so wheels carry the interpreters as minitvm.reference."""
    setuptools = pytest.importorskip("setuptools")
    include = setup_cfg["options.packages.find"]["include"].split()
    packages = setuptools.find_packages(str(ROOT), include=include)
    assert "minitvm.reference" in packages
    assert not [name for name in packages if name.split(".")[0] != "minitvm"]


def test_every_folder_of_modules_is_a_package() -> None:
    """A folder without __init__.py is found by an editable install and missing from a wheel."""
    folders = {path.parent for top in ("minitvm", "reference") for path in (ROOT / top).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_subpackage_of_reference_is_reached_through_the_link() -> None:
    link = ROOT / "minitvm" / "reference"
    assert link.is_symlink()
    assert link.resolve() == ROOT / "reference"
    assert not os.path.isabs(os.readlink(link)), "an absolute link breaks in every other checkout"


def test_importing_minitvm_loads_nothing_else() -> None:
    loaded = run_python(
        """
        import sys
        before = set(sys.modules)
        import minitvm
        print(sorted(name for name in set(sys.modules) - before if name.split(".")[0] in
                     {"minitvm", "numpy", "numba", "llvmlite", "sympy", "islpy", "rich", "onnx"}))
        """
    )
    assert loaded == "['minitvm']"


def test_public_function_survives_the_import_of_its_module(tmp_path: Path) -> None:
    """`minitvm.build` stays the function after build.py was imported, in whichever order."""
    package = tmp_path / "minitvm"
    package.mkdir()
    shutil.copy(ROOT / "minitvm" / "__init__.py", package)
    (package / "build.py").write_text("def build(): return 'built'\ndef lower(): return 'lowered'\n")
    checks = "assert minitvm.build() == 'built'; assert minitvm.lower() == 'lowered'"
    orders = [
        f"import minitvm; {checks}",
        f"import minitvm.build; {checks}",
        f"from minitvm.build import lower; import minitvm; {checks}",
        f"import minitvm.build; from minitvm import build; assert build() == 'built'; import minitvm; {checks}",
        f"import minitvm, importlib; {checks}; importlib.reload(importlib.import_module('minitvm.build')); {checks}",
    ]
    for code in orders:
        run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}", PYTHONPATH=str(tmp_path))


def test_a_public_name_and_its_place_are_one_module() -> None:
    run_python(
        """
        import importlib, sys
        import minitvm
        for public, place in minitvm._PLACES.items():
            module = importlib.import_module(public)
            assert module is sys.modules[place] and module.__spec__.name == module.__name__ == place, public
        assert importlib.import_module("minitvm.ir.instrument") is sys.modules["minitvm.compat.tvm.ir.instrument"]
        """
    )


def test_unknown_public_name_is_an_attribute_error() -> None:
    import minitvm

    with pytest.raises(AttributeError, match="relay"):
        minitvm.relay


def fuzz(folder: Path, test: str, minutes: str) -> subprocess.CompletedProcess[str]:
    """`make fuzz` with one property test for all that it runs."""
    planted = folder / "test_planted.py"
    planted.write_text(textwrap.dedent(test))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "HYPOTHESIS"))}
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "fuzz.py", "-p", "no:cacheprovider", f"--rootdir={folder}", str(planted)],
        capture_output=True,
        text=True,
        env={**environment, "FUZZ_MINUTES": minutes},
        check=False,
    )


def test_fuzzing_ends_with_the_first_failure(tmp_path: Path) -> None:
    """Far more time is given than a slow machine needs: it ends because it has found something."""
    done = fuzz(
        tmp_path,
        """
        from hypothesis import given, strategies as st

        @given(st.integers(0, 10**6))
        def test_planted(n):
            assert n < 5000
        """,
        minutes="60",
    )
    assert done.returncode != 0, done.stdout + done.stderr
    assert "again with: --hypothesis-seed=" in done.stderr
    assert "n=5000" in done.stdout, "the failure is shrunk to the smallest number that shows it"


@pytest.mark.full  # it waits for most of two minutes
def test_fuzzing_ends_in_time(tmp_path: Path) -> None:
    """However slow the machine, the time is over before the property test is: it sleeps for as long as it is let."""
    done = fuzz(
        tmp_path,
        """
        import time
        from hypothesis import given, strategies as st

        @given(st.integers(0, 10**6))
        def test_planted(n):
            time.sleep(3600)
        """,
        minutes="0.05",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing found in 0.05 minutes, 0 whole rounds" in done.stdout


@pytest.mark.full  # it waits for most of two minutes
def test_fuzzing_tells_what_one_worker_found_while_the_other_was_busy(tmp_path: Path) -> None:
    done = fuzz(
        tmp_path,
        """
        import time
        from hypothesis import given, strategies as st

        @given(st.integers(0, 10**6))
        def test_planted(n):
            assert n < 5000

        @given(st.integers(0, 10**6))
        def test_slow(n):
            time.sleep(3600)
        """,
        minutes="0.7",
    )
    assert done.returncode != 0, done.stdout + done.stderr
    assert "again with: --hypothesis-seed=" in done.stderr
    assert "n=5000" in done.stdout


def test_no_two_packages_of_tests_share_a_name() -> None:
    """pytest knows them by the name of their outermost folder with an __init__.py: of two it would find one."""
    tests = ROOT / "tests"
    roots = [init.parent for init in tests.rglob("__init__.py") if not (init.parent.parent / "__init__.py").exists()]
    names = sorted(root.name for root in roots)
    assert names and names == sorted(set(names)), [str(root.relative_to(tests)) for root in roots]


NO_SUBJECT = {"Of", "That", "Those", "So", "Whose"}


def test_no_docstring_begins_without_its_subject() -> None:
    """A first word that points at a noun of some other place leaves the reader to look for it."""
    bare = []
    for top in ("minitvm", "reference"):
        for file in sorted((ROOT / top).rglob("*.py")):
            if file.relative_to(ROOT).parts[1] in ("reference", "lessons"):
                continue  # links
            text = file.read_text(encoding="utf-8")
            if not re.search(rf"[\"']\W*({'|'.join(NO_SUBJECT)})\b", text):
                continue  # no need to parse it
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    words = (ast.get_docstring(node) or "").split()
                    if words and words[0].strip("`,:") in NO_SUBJECT:
                        bare.append(f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {' '.join(words[:6])}")
    assert bare == []


def test_an_import_is_one_line() -> None:
    """Where a module needs more names of another than fit, it imports that one: `from .. import expr as ex`.

    The `__init__` of a package may list what the package offers.
    """
    long = []
    for file in sorted((ROOT / "minitvm").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if file.name != "__init__.py" and " import (" in text:
            long += [
                f"{file.relative_to(ROOT)}:{node.lineno}"
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.ImportFrom) and node.end_lineno != node.lineno
            ]
    assert long == []
