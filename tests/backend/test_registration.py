"""A back end that cannot work says so when it is registered, with each part that is missing or wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

import minitvm
from minitvm.backend import PARTS, Backend, find, get, names, register, registered
from minitvm.backend import registry as table
from minitvm.errors import TargetError
from minitvm.target import CPU, KINDS, Kind, Target

REQUIRED = [part.name for part in PARTS if not part.default]


class _Program:
    """A program that is never opened."""

    def __init__(self, executable: Any, threads: Any, **others: Any) -> None: ...
    def bind(self, key: Any, env: Any) -> Any: ...
    def holds(self, bound: Any) -> bool:
        return True


def _source(kernel: Any, target: Any) -> str:
    return ""


@pytest.fixture
def complete() -> Iterator[Backend]:
    """A back end with every part that has no default; what a test registers is gone afterwards."""
    registered()
    kinds, backends = dict(KINDS), dict(table._BACKENDS)
    machine = Kind(("abacus",), CPU, lambda: CPU("abacus"), "abacus")
    yield Backend("abacus", machine=machine, language="beads", generate=_source, program=_Program)
    for rows, before in ((KINDS, kinds), (table._BACKENDS, backends)):
        rows.clear()
        rows.update(before)  # type: ignore[arg-type]


def test_the_table_lists_the_parts() -> None:
    assert [part.name for part in PARTS] == [field.name for field in fields(Backend)][1:]
    assert REQUIRED == ["language", "generate", "program"]


@pytest.mark.parametrize("part", REQUIRED)
def test_a_back_end_without_a_part_is_refused(complete: Backend, part: str) -> None:
    row = next(row for row in PARTS if row.name == part)
    with pytest.raises(TargetError) as error:
        register(replace(complete, **{part: None}))
    assert f"wanted: {row.call}, for {row.purpose}\n  found:  no {part}\n" in str(error.value)
    assert find("cpu") is not None and "abacus" not in registered() and "abacus" not in KINDS


def test_all_missing_parts_are_told_at_once() -> None:
    with pytest.raises(TargetError) as error:
        register(Backend("abacus", rules=lambda target: []))
    assert str(error.value) == (
        "back end 'abacus' cannot be registered\n"
        "  wanted: language: str, for kernels to name the language of their source\n"
        "          generate(kernel, target) -> str, for build to get the source of a kernel\n"
        "          program(executable, threads, workers=, progress=, kernels=) -> runtime.program.Program, for the "
        "runtime to run an executable\n"
        "  found:  no language\n"
        "          no generate\n"
        "          no program\n"
        "  try:    minitvm.backend.PARTS lists the parts, and which of them have a default"
    )


WRONG = {
    "takes too little": ({"generate": lambda kernel: ""}, "generate(kernel): too many positional arguments"),
    "takes too much": ({"waits": lambda a, b, c: []}, "waits(a, b, c): missing a required argument: 'c'"),
    "not called": ({"rules": 3}, "rules: 3, which cannot be called"),
    "no name": ({"program": "a program"}, "program: the text 'a program', which is not a name such as"),
    "no method": ({"program": dict}, "program: dict without bind and holds"),
    "no language": ({"language": ""}, "language: ''"),
    "no saving": ({"machine_code": _Program}, "machine_code: _Program without pack and unpack"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_a_part_of_another_form_is_refused(complete: Backend, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError) as error:
        register(replace(complete, **changes))
    assert f"  found:  {message}" in str(error.value)


def test_one_kind_has_one_back_end(complete: Backend) -> None:
    register(complete)
    assert get(Target("abacus -cores=3")) is complete
    assert names().startswith("abacus, accel, cpu")
    with pytest.raises(TargetError, match="'abacus' has a back end already"):
        register(complete)
    with pytest.raises(TargetError, match="'cpu' has a back end already"):
        register(Backend("cpu", language="beads", generate=_source, program=_Program))
    with pytest.raises(TargetError, match="'slate' has a machine of another name: abacus"):
        register(replace(complete, kind="slate"))
    with pytest.raises(TargetError, match="unknown target 'slate'"):
        register(replace(complete, kind="slate", machine=None))


def test_a_kind_without_a_back_end_is_refused_where_code_is_wanted(monkeypatch) -> None:
    monkeypatch.setitem(KINDS, "slide_rule", replace(KINDS["accel"], names=("slide_rule",), device="slide_rule"))
    assert find("slide_rule") is None and find(None) is None
    refused = "target slide_rule: there is no code generator for it yet, only for accel, cpu, cuda, gemmini, interp"
    with pytest.raises(TargetError, match=refused):
        minitvm.backend.get(Target("slide_rule"))


def test_parts_of_our_own_back_ends_are_where_their_names_say() -> None:
    """Registration does not import what is named: this does."""
    for backend in registered().values():
        for part in PARTS:
            if isinstance(getattr(backend, part.name), str) and part.name != "language":
                resolved = replace(backend, **{part.name: backend.part(part.name)})
                assert table._fault(part, getattr(resolved, part.name)) is None
