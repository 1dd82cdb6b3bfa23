"""Who may read the regions that a block declares (`block.reads`, `block.writes`).

`tir.analysis.effects` tells what code touches, and `tir.analysis.block_regions` puts that into one box for each buffer
of a block. `T.reads` and `T.writes` are parsed, printed and checked: a module that decides something from them would
give a second answer, which differs from the first wherever a block declares more than it touches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "minitvm"

MAY_READ = {
    "tir/analysis/effects.py": "what a foreign call touches is what its block declares: nothing else shows it",
    "tir/analysis/block_regions.py": "the order, and so the numbers, of the regions; what a block explicitly declares",
    "tir/schedule/claims.py": "checks declarations before the first step, and lets them grow with later ones",
    "tir/schedule/primitives/tensorize.py": "checks that a block declares the boxes of an instruction",
    "compat/tvm/schedule/primitives/annotate_buffer_access.py": "changes the declaration",
    "tir/script/printer.py": "prints it",
    "tir/verifier/tir_rules.py": "checks it",
    "tir/verifier/visibility.py": "checks that what it names is visible",
}  # fmt: skip

# `reads` and `writes` of classes that are no blocks.
OTHER_CLASSES = {
    "link/steps.py": "Touched",
    "machines/gemmini/timing.py": "Cost",
    "machines/vta/ordering.py": "Touch",
    "machines/vta/tokens.py": "Touch",
    "tir/work/count.py": "Work",
    "tir/work/formulas.py": "WorkFormula",
    "tools/profile/measure.py": "Work",
}


def _names_of_effects(module: ast.Module) -> set[str]:
    """The names that stand for effects somewhere in a module: bound to them, annotated with them, or one of several."""
    names: set[str] = set()
    for _ in range(3):  # a name may be bound to one that an earlier round bound
        for node in ast.walk(module):
            bound: list[tuple[ast.AST, ast.AST]] = []
            if isinstance(node, ast.Assign):
                bound = [(target, node.value) for target in node.targets]
            elif isinstance(node, ast.comprehension | ast.For):
                bound = [(node.target, node.iter)]
            elif (
                isinstance(node, ast.arg) and node.annotation is not None and "Effects" in ast.unparse(node.annotation)
            ):
                names.add(node.arg)
            for target, value in bound:
                whole = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
                if all(_gives_effects(item, names) for item in whole):
                    names |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
    return names


def _gives_effects(value: ast.AST, names: set[str]) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rsplit(".", 1)[-1] == "effects"
    if isinstance(value, ast.GeneratorExp | ast.ListComp):
        return _gives_effects(value.elt, names)
    return isinstance(value, ast.Name) and value.id in names


def readers(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each place in a module that reads the declared regions of a block."""
    module = ast.parse(text)
    names = _names_of_effects(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and node.attr in ("reads", "writes") and isinstance(node.ctx, ast.Load):
            if not _gives_effects(node.value, names) and ast.unparse(node.value) != "T":
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            if any(isinstance(a, ast.Constant) and a.value in ("reads", "writes") for a in node.args):
                yield node.lineno, ast.unparse(node)


def test_no_other_module_reads_declared_regions() -> None:
    broken = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in MAY_READ and name not in OTHER_CLASSES:
            broken += [f"minitvm/{name}:{line}: {text}" for line, text in readers(path.read_text(encoding="utf-8"))]
    listed = "\n".join(broken)
    assert not broken, (
        f"{listed}\n\nask regions_read or regions_written (minitvm/tir/analysis/block_regions.py) instead"
    )


@pytest.mark.parametrize("name", [*MAY_READ, *OTHER_CLASSES])
def test_no_module_is_listed_in_vain(name: str) -> None:
    assert list(readers((PACKAGE / name).read_text(encoding="utf-8"))), name


def test_few_places_read_declared_regions() -> None:
    places = [text for name in MAY_READ for _, text in readers((PACKAGE / name).read_text(encoding="utf-8"))]
    assert sum(text.split(".")[-2] in ("block", "root") for text in places) < 30


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(block): return block.reads[0].buffer", 1),
        ("def f(realize): return {r.buffer for r in (*realize.block.reads, *realize.block.writes)}", 2),
        ("def f(block): return getattr(block, 'writes')", 1),
        ("def f(block): return effects(block).reads", 0),
        ("def f(block):\n    touched = effects(block)\n    return touched.reads, touched.writes", 0),
        ("def f(pair):\n    one, other = (effects(s) for s in pair)\n    return [e.reads for e in (one, other)]", 0),
        ("def f(one: Effects): return one.writes", 0),
        ("def f(a):\n    with T.block('B'):\n        T.reads(a[0])", 0),
        ("def f(block): return regions_read(block)", 0),
    ],
)
def test_a_reader_is_recognised(text: str, count: int) -> None:
    assert len(list(readers(text))) == count
