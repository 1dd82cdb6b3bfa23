"""Logits that llama.cpp computes for the random models of these tests.

They come from llama-cpp-python 0.3.36 with caches in float32: the first six logits after the last of `TOKENS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm.frontends import from_gguf
from tests.tools.language import vocabularies as v

from .models import write_model
from .test_decoders import TOKENS, run

FACTORS = np.array([1.0, 1.5, 2, 3, 5, 8, 8, 8])
LINEAR = [-1.9377, -2.8229, 2.2773, -2.0469, 1.0548, 0.5223]
PLAIN = [-2.1915, -0.9416, 1.9428, 0.3571, -0.0529, 0.861]


@pytest.mark.parametrize(
    ("architecture", "options", "expected"),
    [
        ("llama", {}, PLAIN),
        ("llama", {"tied": False}, [0.7272, 0.3916, -0.7177, -0.0069, 0.9633, -0.971]),
        ("llama", {"factors": FACTORS}, [-1.7513, -1.4039, 3.009, -1.2964, 1.2803, 0.3949]),
        ("llama", {"metadata": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}}, LINEAR),
        ("llama", {"metadata": {"rope.scaling.factor": 4.0}}, LINEAR),
        ("llama", {"metadata": {"rope.scale_linear": 4.0}}, LINEAR),
        ("llama", {"metadata": {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}}, PLAIN),
        ("qwen2", {}, [0.9736, -1.5159, 1.1869, 2.269, -0.2697, 1.2814]),
        ("qwen3", {"head_width": 24}, [1.2063, 2.4301, -0.7121, -2.5906, -0.3731, 0.7056]),
        ("gemma", {"head_width": 24}, [3.6482, 0.3097, -0.8076, -0.8141, -0.7124, 0.4812]),
    ],
)
def test_logits(tmp_path: Path, architecture: str, options: dict[str, Any], expected: list[float]) -> None:
    path = tmp_path / "model.gguf"
    words = v.of_bytes([("a", "b"), ("l", "l"), ("Ġ", "a")])  # the numbers of these models are drawn for 262 tokens
    write_model(path, architecture, words=words, vocabulary=262, **options)
    logits = run(from_gguf(path, shapes={"tokens": (1, len(TOKENS))}), TOKENS)[0]
    # llama.cpp looks up the activation of Gemma in a table of float16.
    near = 4e-3 if architecture == "gemma" else 2e-4
    np.testing.assert_allclose(logits[:6], expected, rtol=0, atol=near)
