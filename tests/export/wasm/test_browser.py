"""The page of an exported network, in Chromium."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import minitvm
from minitvm.export.wasm import TARGET, export
from minitvm.graph import Graph, GraphBuilder
from minitvm.runtime import GraphModule
from minitvm.runtime.here import on_this_machine

from .browser import CHROMIUM, answer_of

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium")


def layer() -> Graph:
    b = GraphBuilder("layer")
    w = b.constant(np.linspace(-1, 1, 48 * 20, dtype=np.float32).reshape(48, 20))
    return b.build(b.op("nn.softmax", b.op("nn.matmul", b.input("x", (3, 48)), w)))


SCRIPT = """
    const { load } = await import("./net.js");
    let progress = 0;
    const net = await load(".", { progress: (received, total) => { progress = received / total; } });
    const x = Float32Array.from({ length: 144 }, (_, k) => Math.fround(k / 144));
    const [{ data, shape }] = Object.values(net.run({ x }));
    await until(() => !document.forms[0].hidden);
    document.getElementById("text:x").value = JSON.stringify(Array.from(x));
    document.querySelector("button").click();
    await until(() => document.getElementById("result").textContent);
    return JSON.stringify({ progress, shape, bits: Array.from(new Uint32Array(data.buffer)), name: document.title,
      result: document.getElementById("result").textContent });
"""


def test_a_browser_runs_a_network(tmp_path: Path) -> None:
    """It loads the weights, computes the bits of the same kernels here, and the page's form shows the numbers."""
    executable = minitvm.lower(layer(), target=TARGET, stop_at="executable")
    export(executable, tmp_path / "net")
    answer = json.loads(answer_of(tmp_path / "net", "index.html", SCRIPT, tmp_path / "profile"))
    x = (np.arange(144) / 144).astype(np.float32).reshape(3, 48)
    expected = np.asarray(GraphModule(on_this_machine(executable), threads=1)(x))
    assert (answer["progress"], answer["shape"], answer["name"]) == (1, [3, 20], "layer")
    np.testing.assert_array_equal(np.array(answer["bits"], np.uint32), expected.view(np.uint32).ravel())
    assert " ms\n" in answer["result"] and " (3, 20): " in answer["result"]
