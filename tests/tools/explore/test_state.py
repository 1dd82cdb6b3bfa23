"""The versions of an edited schedule: nothing is lost, and each one can be reached and shared."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import InputError
from minitvm.target import Target
from minitvm.tools.cli.program_file import read_subjects
from minitvm.tools.explore import state as versions
from minitvm.tools.explore.evaluate import answer
from minitvm.tools.explore.readable_names import written
from minitvm.tools.explore.state import State

PROGRAM = """@T.prim_func
def copy(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""
LINES = 'block_B = sch.get_block("B")\ni, = sch.get_loops(block_B)\ni_0, i_1 = sch.split(i, [None, 4])'
TEXT = st.lists(st.sampled_from(["a", "b", "", " c", "\t"]), max_size=4).map("\n".join)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["edit", "append"]), TEXT),
        st.tuples(st.sampled_from(["undo", "redo", "fork"])),
        st.tuples(st.just("go"), st.integers(0, 20)),
    ),
    max_size=20,
)


def moved(state: State, move: tuple[str, ...]) -> State:
    try:
        return getattr(versions, move[0])(state, *move[1:])
    except InputError:
        assert move[0] == "go" and move[1] >= len(state.versions)
        return state


@given(TEXT, MOVES)
def test_nothing_is_lost_and_every_version_can_be_reached(first: str, moves: list[tuple[str, ...]]) -> None:
    state = versions.start("p", first)
    for move in moves:
        after = moved(state, move)
        assert after.versions[: len(state.versions)] == state.versions, "versions are only added"
        assert len(after.versions) - len(state.versions) in (0, 1)
        assert 0 <= after.at < len(after.versions)
        if move[0] == "edit" and after is not state:
            assert versions.undo(after).at == state.at and versions.redo(versions.undo(after)) == after
        if move[0] == "fork":
            assert after.lines == state.lines and after.at != state.at
        state = after
    for number in range(len(state.versions)):
        there = versions.go(state, number)
        assert there.lines == state.versions[number].lines
        for _ in state.versions:
            there = versions.undo(there)
        assert there.at == 0, "undo leads to the first version from everywhere"


def test_the_same_lines_are_no_new_version() -> None:
    state = versions.start("p", "a\nb")
    assert versions.edit(state, "\n\na  \r\nb\n\n") is state


@pytest.mark.parametrize("number", [-1, 1, True, "0"])
def test_a_version_that_is_not_there_is_refused(number: object) -> None:
    with pytest.raises(InputError, match="there is no version"):
        versions.go(versions.start("p", ""), number)  # type: ignore[arg-type]


@settings(max_examples=3)
@given(st.sampled_from(["", LINES, LINES + "\n\n# a comment\nsch.vectorize(i_1)"]))
def test_a_shared_file_has_the_same_steps(lines: str) -> None:
    text = versions.shared(versions.start(PROGRAM, lines))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "shared.py"
        path.write_text(text, encoding="utf-8")
        (subject,) = read_subjects(path)
    wanted = [line for line in lines.split("\n") if line and not line.startswith("#")]
    assert [line for _, line in written(subject.trace)] == wanted


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        ("x = (", "'(' was never closed", 1),
        ("\nsch.split(i, [2])", "NameError: name 'i' is not defined", 2),
        ("1 / 0", "ZeroDivisionError: division by zero", 1),
        ("raise SystemExit(3)", "SystemExit: 3", 1),
        ("sch.spilt()", "AttributeError: a Schedule has no 'spilt'; did you mean split?", 1),
        ('sch.get_block("D")', "", 1),  # refused: shown as a step
    ],
)
def test_a_mistake_is_a_message_with_its_line(lines: str, message: str, line: int) -> None:
    given_back = answer("draft", PROGRAM, lines, Target("cpu -vector_bits=256"))
    assert (given_back["message"], given_back["line"]) == (message, line)
    assert ("Refused." in given_back["html"]) is (not message)


def test_each_offered_step_is_legal() -> None:
    offered = answer("next", PROGRAM, LINES, Target("cpu -vector_bits=256"))["next"]
    assert {"split", "fuse", "vectorize"} <= {one["primitive"] for one in offered}
    for one in offered:
        after = answer("draft", PROGRAM, f"{LINES}\n{one['line']}", Target("cpu -vector_bits=256"))
        assert (after["message"], after["line"]) == ("", 0), one
        assert "Refused." not in after["html"]


def test_levels_mark_the_same_statement() -> None:
    html = answer("levels", PROGRAM, LINES + "\nsch.vectorize(i_1)", Target("cpu -vector_bits=256"))["html"]
    sections = html.split("<section ")[1:]
    assert "0. the program" in sections[0] and "1. after the schedule" in sections[1]
    assert "split host" in sections[-1]
    assert all(section.count('data-key="B"') == 1 for section in sections)
    assert 0 < sum('class="level unchanged"' in section for section in sections) < len(sections) - 3
