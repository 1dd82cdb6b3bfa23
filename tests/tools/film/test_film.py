"""Films: each access at its time, what a cache holds, where the race detector's finding is, and the text of the SVG."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from lessons import example
from minitvm import reference, tir
from minitvm.errors import InputError
from minitvm.events import Access, Listener
from minitvm.film import Canvas, Film
from minitvm.reference.meaning.findings import UndefinedBehaviour
from minitvm.reference.strategies import prim_funcs
from minitvm.script import tir as T
from minitvm.tools.cli import main
from minitvm.tools.film import recording
from minitvm.tools.film.film import MOST_BYTES
from minitvm.tools.film.recording import Touch


class Tape(Listener):
    """All accesses in the order of the interpreter."""

    def __init__(self) -> None:
        self.touches: list[Touch] = []

    def load(self, access: Access) -> None:
        self.touches.append(Touch("read", access.buffer, access.offset))

    def store(self, access: Access) -> None:
        self.touches.append(Touch("written", access.buffer, access.offset))


def shown(svg: str, unit_of: Film) -> list[dict[str, set[tuple[float, float]]]]:
    """For each moment, the squares of each class that light up, read back from the SVG."""
    moments: list[dict[str, set[tuple[float, float]]]] = []
    for group in re.findall(r'<g style="--t:(\d+)">(.*?)</g>', svg):
        while len(moments) <= int(group[0]):
            moments.append({})
        for letter, path in re.findall(r'<path class="(\w)" d="([^"]*)"', group[1]):
            moments[int(group[0])][letter] = squares(path)
    assert len(moments) <= len(unit_of.reel().moments)
    return moments


def squares(path: str) -> set[tuple[float, float]]:
    """The squares of a path of strokes."""
    strokes = re.findall(r"M([\d.]+) ([\d.]+)h(\d+)", path)
    return {(float(x) + k, float(y)) for x, y, count in strokes for k in range(int(count))}


@T.prim_func
def parallel_chain(A: T.Buffer((5,), "int32")):
    for i in T.parallel(4):
        A[i + 1] = A[i] + 1


@T.prim_func
def rows(X: T.Buffer((4, 3), "float32"), Y: T.Buffer((4, 3), "float32")):
    for i in T.parallel(4):
        for j in range(3):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] + T.float32(1)


@given(prim_funcs(), st.sampled_from([0, 2, 9]))
def test_a_film_of_any_program(func: tir.PrimFunc, lines: int) -> None:
    arrays = reference.random_inputs(func)
    film = Film.of(func, *arrays, cache_lines=lines)
    tape = Tape()
    reference.tir.run(func, *[np.copy(a) for a in arrays], listeners=[tape], shadow=False)
    in_film = [touch for moment in film.reel(10**6).moments for touch in moment.touches]
    assert Counter(in_film) == Counter(tape.touches), "each access is in the film once"
    if not any(line.loop and line.loop.kind in ("parallel", "vectorized") for line in film.program.walk()):
        assert in_film == tape.touches

    try:
        reference.tir.run(func, *[np.copy(a) for a in arrays])
        undefined = False
    except UndefinedBehaviour:
        undefined = True
    assert bool(film.marks(film.reel())) == undefined

    svg = film.svg()
    assert svg == Film.of(func, *arrays, cache_lines=lines).svg()
    assert len(svg.encode()) <= MOST_BYTES
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert "<script" not in svg
    assert "prefers-reduced-motion:reduce" in svg
    assert "prefers-color-scheme:dark" in svg


def test_a_film_leaves_the_arrays_alone() -> None:
    arrays = [np.ones((4, 3), "float32"), np.zeros((4, 3), "float32")]
    Film.of(rows, *arrays)
    assert not arrays[1].any()


@pytest.mark.parametrize("moments", [320, 7])
def test_the_squares_are_those_of_the_accesses(moments: int) -> None:
    film = Film.of(example.blocks(3, 4, 2), moments=moments)
    reel = film.reel()
    places = {panel.name: panel for panel in film.panels()}
    svg = film.svg()
    origin = {name: drawn_origin(svg, number) for number, name in enumerate(places)}
    pictures = shown(svg, film)
    assert len(pictures) == len(reel.moments) <= moments
    for moment, picture in zip(reel.moments, pictures, strict=True):
        wanted: dict[str, set[tuple[float, float]]] = {"read": set(), "written": set()}
        for touch in moment.touches:
            x, y = places[touch.buffer].square(touch.offset)
            wanted[touch.verb].add((x + origin[touch.buffer][0], y + origin[touch.buffer][1]))
        both = {(x, y - 0.25) for x, y in picture.get("v", set())}
        assert picture.get("r", set()) == wanted["read"]
        assert picture.get("w", set()) | both == wanted["written"]
        assert both == wanted["read"] & wanted["written"]


def drawn_origin(svg: str, number: int) -> tuple[float, float]:
    """The first square of the grid of a buffer."""
    first = re.findall(r'<path class="o" d="M([\d.]+) ([\d.]+)h', svg)[number]
    return float(first[0]), float(first[1])


def test_parallel_iterations_happen_together_and_serial_ones_in_turn() -> None:
    reel = Film.of(rows).reel()
    assert [{t.offset for t in m.touches if t.verb == "written"} for m in reel.moments] == [
        {0, 3, 6, 9}, {1, 4, 7, 10}, {2, 5, 8, 11}
    ]  # fmt: skip
    sch = tir.Schedule(rows)
    sch.vectorize(sch.get_loops("Y")[1])
    assert len(Film.of(sch).reel().moments) == 1
    kernel = minitvm.lower(sch.func, stop_at="kernel")["rows"]
    film = Film.of(kernel, np.ones((4, 3), "float32"), np.zeros((4, 3), "float32"))
    assert len(film.reel().moments) == 1, "the lanes of a vector are one step"
    assert "4 x 3" in film.svg(), "a flat buffer has the shape of the array"


@T.prim_func
def turned(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((4,), "float32", scope="shared")
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("S"):
                vb, vt = T.axis.remap("SS", [b, t])
                S[vt] = A[vb * 4 + vt]
        for t in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("B"):
                vb, vt = T.axis.remap("SS", [b, t])
                B[vb * 4 + vt] = S[3 - vt]


def test_threads_go_in_step_up_to_a_barrier() -> None:
    lowered = minitvm.lower(turned, target="cuda", stop_at="kernel")["turned"]
    film = Film.of(lowered)
    touched = [Counter((t.verb, t.buffer) for t in moment.touches) for moment in film.reel().moments]
    assert touched == [
        {("read", "A"): 8, ("written", "S"): 8}, {}, {("read", "S"): 8, ("written", "B"): 8}
    ]  # fmt: skip
    assert "barrier: all threads wait for each other" in film.svg()


@pytest.mark.parametrize("lines", [1, 2, 3, 8, 100])
def test_the_cache_holds_the_lines_that_were_used_last(lines: int) -> None:
    sch = tir.Schedule(example.blocks(4, 6, 5))
    i, j, r = sch.get_loops("C")
    sch.reorder(i, r, j)
    film = Film.of(sch, cache_lines=lines, line_bytes=8)
    reel = film.reel(10**6)
    assert reel.cache is not None
    latest: list[tuple[str, int]] = []  # the line used last at the end
    misses = 0
    for number, moment in enumerate(reel.moments):
        for touch in moment.touches:
            line = touch.buffer, touch.offset // 2
            misses += line not in latest[-lines:]
            latest = [other for other in latest if other != line] + [line]
        held = {stay.line for stay in reel.stays if stay.begin <= number and (stay.end is None or stay.end > number)}
        assert held == set(latest[-lines:])
    assert misses == reel.cache.misses == sum(len(moment.missed) for moment in reel.moments)
    assert f"{misses:,} misses in {reel.cache.accesses:,} accesses" in film.svg()


def test_registers_are_not_cached() -> None:
    @T.prim_func
    def doubled(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        s = T.alloc_buffer((1,), "float32", scope="local")
        for i in range(4):
            s[0] = X[i]
            Y[i] = s[0] + s[0]

    reel = Film.of(doubled, cache_lines=1).reel()
    assert reel.cache is not None
    assert reel.cache.accesses == 8


def test_the_mark_is_where_the_race_detector_found_it() -> None:
    film = Film.of(parallel_chain, np.zeros(5, "int32"), inout=["A"])
    with pytest.raises(UndefinedBehaviour) as caught:
        reference.tir.run(parallel_chain, np.zeros(5, "int32"), inout=["A"])
    finding = caught.value.finding
    (mark,) = film.marks(film.reel())
    assert mark.touch is not None
    assert (mark.touch.buffer, (mark.touch.offset,)) == (finding.buffer, finding.index)
    svg = film.svg()
    assert svg.count('class="x"') == 1
    assert "conflicting accesses to element [1] of A: nothing" in svg


def test_an_uninitialised_read_is_marked() -> None:
    @T.prim_func
    def holes(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        H = T.alloc_buffer((4,), "float32")
        for i in range(3):
            H[i] = X[i]
        for i in range(4):
            Y[i] = H[i]

    film = Film.of(holes)
    (mark,) = film.marks(film.reel())
    assert mark == type(mark)(6, Touch("read", "H", 3))
    assert "uninitialised read: element [3] of H" in film.svg()


def test_an_output_that_is_not_written_is_marked_at_the_end() -> None:
    @T.prim_func
    def short(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        for i in range(3):
            Y[i] = X[i]

    film = Film.of(short)
    assert [(m.moment, m.touch) for m in film.marks(film.reel())] == [(2, Touch("written", "Y", 3))]


def test_long_films_show_several_steps_at_a_time_and_say_so() -> None:
    film = Film.of(example.blocks(12, 12, 12), cache_lines=8, buffers=["A", "C"])
    svg = film.svg()
    assert len(svg.encode()) <= MOST_BYTES
    assert re.search(r"2,016 steps, \d+ at a time; cache of 8 lines of 16 bytes", svg)
    assert sum(len(moment.touches) for moment in film.reel().moments) == 4 * 12**3 + 12**2 + 3 * 12**2


def test_open_dimensions_have_the_sizes_that_you_give() -> None:
    func = minitvm.from_source("""
@T.prim_func
def negated(x: T.handle, y: T.handle):
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    Y = T.match_buffer(y, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = -X[vi, vj]
""")
    sizes = {"n": 3, "m": 5}
    film = Film.of(func, sizes=sizes)
    assert "X  3 x 5" in film.svg()
    assert len(film.groups) == 15
    lowered = minitvm.lower(func, stop_at="kernel")["negated"]
    assert {t.offset for g in Film.of(lowered, sizes=sizes).groups for s in g for t in s.touches} == set(range(15))


def test_large_buffers_show_tiles() -> None:
    @T.prim_func
    def copy(X: T.Buffer((80, 40), "float32"), Y: T.Buffer((80, 40), "float32")):
        for i, j in T.grid(80, 40):
            Y[i, j] = X[i, j]

    film = Film.of(copy)
    assert "X  80 x 40, a square is 3 x 2" in film.svg()
    panel = film.panels()[0]
    assert (panel.rows, panel.columns) == (27, 20)
    assert panel.square(79 * 40 + 39) == (19, 26)


def test_a_listener_of_a_run_of_ones_own() -> None:
    film = Film(rows)
    reference.tir.run(rows, np.ones((4, 3), "float32"), np.zeros((4, 3), "float32"), listeners=[film])
    assert film.svg() == Film.of(rows).svg() == film._repr_svg_()


def test_what_cannot_be_drawn_is_refused() -> None:
    film = Film.of(rows, buffers=["Z"])
    with pytest.raises(InputError) as error:
        film.svg()
    assert str(error.value) == "the film of rows has no buffer 'Z'\n  wanted: X, Y\n  found:  buffers=['Z']"
    with pytest.raises(InputError) as error:
        Film(rows, cache_lines=-1)
    assert str(error.value) == (
        "the film of rows cannot be drawn\n  wanted: cache_lines of 0 or more, line_bytes and moments of 1 or more\n"
        "  found:  cache_lines=-1, line_bytes=16, moments=320"
    )
    with pytest.raises(InputError) as error:
        Film.of([1, 2])
    assert str(error.value) == (
        "a film cannot be made of this\n  wanted: a PrimFunc, an IRModule or a Schedule\n  found:  list"
    )


def test_a_run_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_ACCESSES", 1000)
    with pytest.raises(InputError) as error:
        Film.of(example.blocks(8, 9, 10))
    assert str(error.value) == (
        "the film of example is too long\n  wanted: at most 1,000 elements read or written\n"
        "  found:  more; loops so far: i of 8, j of 9, r of 10\n"
        "  try:    smaller shapes, or fewer iterations; the order is the same"
    )


def test_too_many_buffers_are_refused() -> None:
    count = 13
    lines = [f"    B{k} = T.alloc_buffer((2,), 'float32')" for k in range(count)]
    lines += ["    for i in range(2):", *(f"        B{k}[i] = T.float32({k})" for k in range(count))]
    func = minitvm.from_source("@T.prim_func\ndef many(X: T.Buffer((2,), 'float32')):\n" + "\n".join(lines))
    with pytest.raises(InputError) as error:
        Film.of(func).svg()
    assert str(error.value) == (
        "the film of many has too many buffers\n  wanted: at most 12\n"
        f"  found:  13: {', '.join(f'B{k}' for k in range(count))}\n"
        "  try:    buffers=[...] with those that you want to see"
    )


def test_a_canvas_of_ones_own() -> None:
    canvas = Canvas("a <queue>", width=120, height=60, moments=3, unit=20)
    canvas.background(0, 1, columns=3, rows=1)
    canvas.stay("held", [(0, 1)], 0, 2)
    for k in range(3):
        canvas.flash(k, "write", [(k, 1)])
    svg = canvas.svg()
    root = ElementTree.fromstring(svg)
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == "a <queue>"
    assert re.findall(r'class="w" d="([^"]*)"', svg) == ["M0 1h1", "M1 1h1", "M2 1h1"]


def test_the_command_films_the_result_of_a_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "race.py", tmp_path / "race.svg"
    path.write_text(
        "from minitvm.script import tir as T\n@T.prim_func\ndef chain(A: T.Buffer((5,), 'int32')):\n"
        "    for i in T.parallel(4):\n        A[i + 1] = A[i] + 1\n"
        "@T.prim_func\ndef up(A: T.Buffer((5,), 'int32')):\n    for i in range(5):\n        with T.block('A'):\n"
        "            vi = T.axis.spatial(5, i)\n            A[vi] = i\n"
        "def schedule(sch):\n    if 'up' in sch.mod:\n        sch.parallel(sch.get_loops('A')[0])\n"
    )
    assert main(["film", str(path), "-o", str(out), "--cache", "2"]) == 0
    assert capsys.readouterr().out == f"{out}: 5 KB, 1 step of up, scheduled; open it in a browser\n"
    assert "cache of 2 lines of 16 bytes" in out.read_text()
    assert main(["film", str(path), "chain", "-o", str(out), "--inout", "A"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "conflicting accesses to element [1] of A: nothing orders them",
        "  written where i = 0 by: A[i + 1] = A[i] + 1", "  read where i = 1 by: A[i]",
    ]  # fmt: skip


def test_the_command_refuses_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "rows.py", tmp_path / "rows.svg"
    path.write_text(
        "from minitvm.script import tir as T\n@T.prim_func\ndef rows(A: T.Buffer((5,), 'int32')):\n"
        "    for i in range(5):\n        A[i] = i\n"
    )
    assert main(["film", str(path), "row", "-o", str(out)]) == 2
    assert capsys.readouterr().err == f"minitvm film: {path}: has no program row: did you mean rows?\n"
    assert main(["film", str(tmp_path / "none.py"), "-o", str(out)]) == 2
    assert capsys.readouterr().err == f"minitvm film: no such file: {tmp_path / 'none.py'}\n"
    assert not out.exists()
