"""The timeline as a page and as a trace: what is in them, and that a browser draws the page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from minitvm.machines.scratchpad.timeline import UNITS, in_sequence
from minitvm.machines.scratchpad.viz.chrome_trace import chrome_trace
from minitvm.machines.scratchpad.viz.page import PLACE, data, page
from minitvm.machines.scratchpad.viz.roofline import figure, point, save
from minitvm.machines.vta.config import configured
from minitvm.machines.vta.layers import Conv2d, conv2d
from minitvm.machines.vta.timing import simulate
from tests.patience import PATIENCE

from ..vta.programs import VTA, twice

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def layer(contexts: int = 2):
    config = configured("vta", "board")
    return simulate(conv2d(Conv2d(8, 8, 64, 64, 3), config, contexts=contexts, name="<layer>"), config)


def test_the_trace_has_every_instruction_stall_and_token() -> None:
    timeline = simulate(twice(), VTA)
    trace = json.loads(chrome_trace(timeline))
    events = trace["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {*UNITS, *(f"{unit} stands still" for unit in UNITS)}
    slices = [e for e in events if e.get("cat") == "instruction"]
    assert sorted(e["args"]["number"] for e in slices) == sorted([*range(11), *range(11)]), "fetched, and run"
    stalls = [e for e in events if e.get("cat") == "stall"]
    for number, unit in enumerate(UNITS):
        spans = [e for e in slices + stalls if e["tid"] // 2 == number]
        assert sum(e["dur"] for e in spans) == timeline.cycles, unit
    begins, ends = ({e["id"]: e for e in events if e["ph"] == letter} for letter in "sf")
    assert begins.keys() == ends.keys() and len(begins) == len(timeline.tokens) == 7
    for number, begin in begins.items():
        for e in (begin, ends[number]):
            inside = [s for s in slices if s["tid"] == e["tid"] and s["ts"] <= e["ts"] < s["ts"] + s["dur"]]
            assert inside, "an arrow begins and ends in an instruction, or Perfetto drops it"
    assert trace["otherData"] == {"accelerator": "vta", "memory": "tsim", "cycles": timeline.cycles}


def test_the_data_of_the_page() -> None:
    timeline = layer()
    found = data(timeline)
    for unit in UNITS:
        spans = sorted([i[:2] for i in found["intervals"][unit]] + [s[:2] for s in found["stalls"][unit]])
        assert [b for _, b in spans[:-1]] == [a for a, _ in spans[1:]]
        assert spans[0][0] == 0 and spans[-1][1] == timeline.cycles
    assert found["texts"] == [str(one) for one in timeline.program.instructions]
    assert all(abs(t[1] - t[3]) == 1 for t in found["tokens"]), "tokens go to a neighbour"


def test_runs_in_sequence_are_one_run() -> None:
    """Each unit's cycles add up, an instruction keeps its text, tokens lead from the instruction that pushed them."""
    first, second = layer(1), simulate(twice(), VTA)
    whole = in_sequence([first, second, first], "both")
    assert whole.cycles == 2 * first.cycles + second.cycles and whole.program.name == "both"
    assert {unit: sum(spent.values()) for unit, spent in whole.spent.items()} == dict.fromkeys(UNITS, whole.cycles)
    found, alone = data(whole), data(second)
    for unit in UNITS:
        spans = sorted([i[:2] for i in found["intervals"][unit]] + [s[:2] for s in found["stalls"][unit]])
        assert [b for _, b in spans[:-1]] == [a for a, _ in spans[1:]]
    before = len(first.program.instructions)
    inside = [t for t in found["tokens"] if before <= t[4] < before + len(second.program.instructions)]
    assert [[a - first.cycles, m, b - first.cycles, n, p - before, q - before] for a, m, b, n, p, q in inside] == (
        alone["tokens"]
    )
    assert found["texts"][before : before + len(alone["texts"])] == alone["texts"]
    with pytest.raises(ValueError, match="at least one run"):
        in_sequence([], "none")


def test_the_page_is_one_file_with_all_data() -> None:
    timeline = layer()
    text = page(timeline)
    assert PLACE not in text
    held = re.search(r"const data = (.*);\n", text)
    around = text.replace(held.group(1), "") if held else ""
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", around), "nothing comes from elsewhere"
    assert held and json.loads(held.group(1).replace("<\\/", "</"))["title"] == "<layer> on vta, board memory"


def browse(path: Path, *options: str, anchor: str = "") -> str:
    """What Chromium prints for a page."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,900",
         "--virtual-time-budget=3000",
         f"--user-data-dir={path.parent / 'profile'}", *options, f"file://{path}{anchor}"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium")
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    """Scripts run to their end, the table is filled in, and the picture has the colours of all modules."""
    timeline = layer()
    path = tmp_path / "page.html"
    path.write_text(page(timeline), encoding="utf-8")
    document = browse(path, "--dump-dom")
    assert f'data-drawn="{len(timeline.tokens)}"' in document
    assert '<h1 id="title">&lt;layer&gt; on vta, board memory</h1>' in document
    assert f"{timeline.cycles:,} cycles" in document
    assert f"<td>gemm</td><td>-</td><td>-</td><td>{timeline.spent['compute']['gemm']:,}</td>" in document
    few = browse(path, "--dump-dom", anchor="#from=100&to=200")
    assert "cycles 100 to 200" in few
    shown = re.search(r'data-drawn="(\d+)"', few)
    assert shown and int(shown.group(1)) < len(timeline.tokens)
    image = pytest.importorskip("PIL.Image")
    browse(path, f"--screenshot={tmp_path / 'page.png'}")
    pixels = image.open(tmp_path / "page.png").convert("RGB")
    colours = {colour for count, colour in pixels.getcolors(1 << 20) if count > 50}
    wanted = {"load.inp": "1f78b4", "gemm": "2ca02c", "alu": "e6862a", "store": "7b5bb5", "waits for compute": "fbd5a5"}
    missing = [name for name, code in wanted.items() if tuple(bytes.fromhex(code)) not in colours]
    assert missing == []


def test_the_roofline_has_a_point_for_each_number_of_contexts(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    alone, hidden = layer(1), layer(2)
    macs = Conv2d(8, 8, 64, 64, 3).macs
    (intensity, rate), (same, faster) = point(alone), point(hidden)
    assert rate == macs / alone.cycles < faster == macs / hidden.cycles <= 256
    # The image and the filters come at least once, and each result goes.
    assert intensity == pytest.approx(same, rel=0.1) and intensity < macs / (8 * 8 * 64 + 64 * 64 * 9 + 8 * 8 * 64)
    drawn = figure({"small": (alone, hidden)})
    (axes,) = drawn.axes
    assert [line.get_label() for line in axes.get_lines()] == ["DRAM: 8 bytes a cycle", "array: 256 a cycle"]
    save({"small": (alone, hidden)}, tmp_path / "roof.png")
    assert (tmp_path / "roof.png").read_bytes().startswith(b"\x89PNG")
