"""`minitvm explore --static`: the steps of a file, their costs, and the page that shows them."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import tir
from minitvm.reference import strategies
from minitvm.script import tir as T
from minitvm.target import CPU, Target
from minitvm.tir.analysis.registers import in_registers
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.work import count
from minitvm.tir.work.domain import PointDomain
from minitvm.tools.cli import main
from minitvm.tools.cli.program_file import read_subjects
from minitvm.tools.explore import Step, filmed, page, steps
from minitvm.tools.explore.costs import Costs, Instructions, costs, cycles
from minitvm.tools.explore.pages import difference
from minitvm.tools.explore.readable_names import written
from tests.patience import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
GENERIC = Target("cpu -vector_bits=256")
HEAD = "from minitvm.script import ir as I, tir as T\nfrom minitvm import tir\n\n"
PRODUCT = """
@T.prim_func
def product(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer((4, 16), "float32")):
    for i, j, k in T.grid(4, 16, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
SCHEDULE = '''
def schedule(sch):
    i, j, k = sch.get_loops("C")
    j_0, j_1 = sch.split(j, factors=[None, 8])
    sch.reorder(i, j_0, k, j_1)
    sch.vectorize(j_1)
    sch.parallel(k)
'''  # fmt: skip


def file_with(folder: Path, text: str) -> Path:
    path = folder / "steps.py"
    path.write_text(HEAD + text)
    return path


def steps_of(folder: Path, text: str) -> list[Step]:
    (subject,) = read_subjects(file_with(folder, text))
    return list(steps(subject, GENERIC))


class Reader(HTMLParser):
    """Checks that tags are balanced; collects the text in and outside of each kind of tag."""

    EMPTY = ("meta", "input", "br", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.programs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)
        if tag == "pre":
            self.programs.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if "pre" in self.open and self.open[-1] != "i":
            self.programs[-1] += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert all(attrs["aria-controls"] in ids for tag, attrs in reader.tags if attrs.get("role") == "tab")
    return reader


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    return steps_of(tmp_path_factory.mktemp("steps"), PRODUCT + SCHEDULE)


def test_a_schedule_becomes_steps_and_ends_with_the_refused_one(rows: list[Step]) -> None:
    first, split, reorder, vectorize, refused = rows
    assert split.lines == (
        'block_C = sch.get_block("C")',
        "i, j, k = sch.get_loops(block_C)",
        "j_0, j_1 = sch.split(j, [None, 8])",
    )
    assert (reorder.lines, vectorize.lines) == (("sch.reorder(i, j_0, k, j_1)",), ("sch.vectorize(j_1)",))
    assert [step.agreement for step in (first, split, reorder, vectorize)] == ["", "equal", "equal", "equal"]
    assert (refused.lines, refused.program) == (("sch.parallel(k)",), vectorize.program)
    assert refused.error.startswith("parallel(k): only_spatial") and "^ this loop" in refused.error
    assert "for j_1 in T.vectorized(8)" in vectorize.program and "vectorized" not in reorder.program
    work = 2 * 4 * 16 * 8
    assert (first.costs.work, first.costs.loads, first.costs.stores) == (work, 3 * 512, 512 + 64)
    assert vectorize.costs.cycles and first.costs.cycles and vectorize.costs.cycles * 4 < first.costs.cycles


def test_two_programs_that_differ_are_shown_with_a_counterexample(tmp_path: Path) -> None:
    before = PRODUCT.replace("def product", "def before")
    after = PRODUCT.replace("def product", "def after").replace("A[vi, vk] *", "A[vi, 0] *")
    first, other = steps_of(tmp_path, before + after)
    assert (first.agreement, other.agreement) == ("", "different")
    assert "the programs differ in C[" in other.verdict
    text = page("x", {"x": [first, other]})
    assert "computes other values" in text and "the programs differ in C[" in html.unescape(text)


def test_parameters_that_are_in_and_out_are_counted(tmp_path: Path) -> None:
    (first,) = steps_of(
        tmp_path,
        '@T.prim_func\ndef add(A: T.Buffer((8,), "float32")):\n    for i in T.serial(8):\n        with T.block("A"):\n'
        '            vi = T.axis.spatial(8, i)\n            A[vi] = A[vi] + T.float32(1)\n',
    )  # fmt: skip
    assert (first.costs.loads, first.costs.stores, first.costs.misses, first.costs.reason) == (8, 8, 1, "")


def test_a_large_program_is_not_interpreted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minitvm.tools.explore.costs.MOST", 1000)
    first, split, *_ = steps_of(tmp_path, PRODUCT.replace("def product", "def large") + SCHEDULE)
    assert (first.costs.loads, first.costs.reason) == (None, "not counted: more than 1,000 loads and stores")
    assert first.costs.cycles and split.agreement == "unknown"


@settings(max_examples=15, deadline=None)
@given(strategies.scheduled())
def test_the_lines_of_a_step_run_and_give_the_same_program(drawn: strategies.Scheduled) -> None:
    sch = drawn.schedule
    again = tir.Schedule(sch.began_with)
    exec("\n".join(line for _, line in written(sch.trace)), {"sch": again, "tir": tir, "T": T})
    assert str(again.mod) == str(sch.mod)


@settings(max_examples=10, deadline=None)
@given(strategies.scheduled())
def test_scalar_kernels_have_an_instruction_for_each_operation(drawn: strategies.Scheduled) -> None:
    """Without vectors, instructions and accesses are the numbers that `count` gives."""
    for _, kernel in lower(drawn.schedule.func, GENERIC, "kernel").items():
        if kernel.attrs.get("host"):
            continue
        work, registers = count(kernel), in_registers(kernel)
        counter = Instructions(registers, 1 << 20)
        counter.stmt(kernel.body, PointDomain())
        assert all(counter.instructions[name] <= n for name, n in work.operations.items())
        assert counter.accesses["read"] <= sum(n for b, n in work.loads.items() if b not in registers)
        narrow = Instructions(registers, 1)
        narrow.stmt(kernel.body, PointDomain())
        assert all(narrow.instructions[name] >= n for name, n in work.operations.items())


LINES = st.lists(st.sampled_from(["for i in range(4):", "  A[i] = <b>1 & 2", "pass", ""]), min_size=1, max_size=8)


@given(LINES, LINES)
def test_a_difference_has_both_programs(before: list[str], after: list[str]) -> None:
    shown = list(difference("\n".join(before), "\n".join(after)))
    plain = [(kind, html.unescape(re.sub(r"<[^>]*>", "", line))) for kind, line in shown]
    assert [line for kind, line in plain if kind != "added"] == before
    assert [line for kind, line in plain if kind != "removed"] == after


TEXT = st.text(st.sampled_from("ab<>&\"'/ \n^`{}$\\"), max_size=30)


@given(TEXT, TEXT, TEXT, TEXT, st.booleans())
def test_texts_are_escaped(name: str, line: str, program: str, other: str, is_refused: bool) -> None:
    first = Step("The program", (), program, Costs(reason=other))
    second = Step(name, (line,), program, Costs(), "" if is_refused else "equal", other, other * is_refused)
    reader = read(page(name, {name: [first, second], name + "2": [first]}, other))
    assert sum(tag == "script" for tag, _ in reader.tags) == 1
    assert {tag for tag, _ in reader.tags} <= {
        "html", "head", "meta", "title", "style", "noscript", "body", "header", "h1", "h2", "h3", "span", "p", "label",
        "select", "option", "main", "section", "div", "button", "b", "i", "code", "pre", "input", "table", "caption",
        "thead", "tbody", "tr", "th", "td", "details", "summary", "dl", "dt", "dd", "strong", "script",
    }  # fmt: skip
    assert reader.programs[0].rstrip("\n") == program.rstrip("\n")


def test_the_page_of_a_file_is_small_and_needs_nothing(
    rows: list[Step], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, path = tmp_path / "out.html", file_with(tmp_path, PRODUCT + SCHEDULE)
    assert main(["explore", "--static", str(out), str(path), "--target", "cpu -vector_bits=256", "--no-film"]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: ")
    text = out.read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    reader = read(re.sub(r'<span class="line removed".*?\n</span>', "", text, flags=re.DOTALL))
    assert not re.search(r"https?:|\bsrc=|@import|url\(", text), "the page fetches nothing"
    assert "<h1>steps.py<" in text and "<svg" not in text
    for step in rows:
        assert any(step.program == program.rstrip("\n") for program in reader.programs)


def test_films_are_drawn_while_there_is_room(rows: list[Step]) -> None:
    films = [step.film for step in filmed(rows, room=1)]
    assert films[0].startswith("<svg") and not any(films[1:])
    assert not any(step.film for step in filmed(rows, most=100)), "the program is too long"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium")
def test_a_browser_goes_from_step_to_step(tmp_path: Path) -> None:
    """The address chooses a step, and the arrow keys go on from there."""
    first = Step("The program", (), "pass", Costs())
    rows = [first, *(Step(f"step {k}", (f"sch.step({k})",), f"x = {k}", Costs(), "equal") for k in range(1, 4))]
    keys = "for (const key of ['ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft'])"
    keys += " document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"
    path = tmp_path / "page.html"
    path.write_text(page("x", {"one": rows, "two": rows}).replace("</script>", f"{keys}\n</script>"), encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--virtual-time-budget=2000", "--dump-dom", f"file://{path}#1-1"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reader = read(done.stdout)
    selected = [a["id"] for _, a in reader.tags if a.get("aria-selected") == "true"]
    shown = [a["id"] for _, a in reader.tags if a.get("role") == "tabpanel" and "hidden" not in a]
    assert (selected, shown) == (["tab-0-0", "tab-1-2"], ["panel-0-0", "panel-1-2"])
    assert [a["id"] for _, a in reader.tags if a.get("class") == "subject" and "hidden" not in a] == ["subject-1"]


MISTAKES = {
    "x = 1 +": "steps.py:4:8: invalid syntax",
    "x = 1": "holds no program",
    PRODUCT + "def schedule(sch):\n    sch.split(1 / 0, [2])": "ZeroDivisionError: division by zero",
    PRODUCT + "def schedule(sch):\n    sch.get_loops('D')": "no block",
    PRODUCT + "def schedule(sch):\n    sch.spilt()": "a Schedule has no 'spilt'",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_one_message(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, path = tmp_path / "out.html", file_with(tmp_path, text)
    status = main(["explore", "--static", str(out), str(path)])
    shown = capsys.readouterr()
    if status:
        assert (status, out.exists()) == (2, False)
        assert MISTAKES[text] in shown.err and "Traceback" not in shown.err
    else:  # a refused step is a page
        assert MISTAKES[text] in html.unescape(out.read_text(encoding="utf-8"))


def test_a_missing_file_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.html"
    assert main(["explore", "--static", str(out), str(tmp_path / "none.py")]) == 2
    assert main(["explore", "--static", str(tmp_path / "no" / "out.html"), str(file_with(tmp_path, PRODUCT))]) == 2
    assert "no such file" in capsys.readouterr().err


def test_cycles_are_the_slowest_part_of_a_core() -> None:
    """A copy of 64 floats: 8 vectors of 256 bits are 8 loads, 2 of them a cycle, and 8 stores."""

    @T.prim_func(lowered=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            B[T.Ramp(i * 8, 1, 8)] = A[T.Ramp(i * 8, 1, 8)]

    cpu = CPU(vector_bits=256)
    assert cycles(kernel, cpu) == {"arithmetic": 0, "loads": 4, "stores": 8, "moving bytes": 32}
    assert cycles(kernel, CPU(vector_bits=128))["stores"] == 16


def test_only_cpus_have_predicted_cycles() -> None:
    @T.prim_func
    def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]

    assert costs(copy, Target("cuda")).reason == "no cycles: the model knows only CPUs"
