"""Logits that the library `transformers` computes for the random folders of these tests.

They come from transformers 5.24 with torch 2.13 in float32: the first six logits after the last of `TOKENS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm.errors import UnsupportedOperator
from minitvm.frontends import from_huggingface
from tests.frontends.gguf.test_decoders import TOKENS, run

from .test_folders import write_folder

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
PARAMETERS = {"rope_theta": 500.0, "rope_type": "default"}
PLAIN = [0.3218, -0.7454, 1.5276, 2.0057, 0.888, 0.9446]
GEMMA = [2.493, 1.084, -1.8031, 0.8598, -0.6718, -1.2165]


@pytest.mark.parametrize(
    ("architecture", "options", "expected"),
    [
        ("llama", {}, PLAIN),
        ("llama", {"tied": False}, [-0.1385, -0.4605, -0.977, -0.0439, 2.046, 0.426]),
        (
            "llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
            [0.3849, -0.2715, 1.3076, 1.8125, 0.448, 1.5396],
        ),
        (
            "llama", {"rope_scaling": LLAMA3, "rope_theta": 500.0},
            [0.2206, -0.8823, 1.2391, 2.4021, 0.9757, 0.5988],
        ),
        ("llama", {"rope_parameters": PARAMETERS}, [0.2697, -0.7382, 1.3883, 1.7691, 1.2255, 0.3011]),
        ("mistral", {"sliding_window": 24}, PLAIN),
        ("qwen2", {"sliding_window": 4}, [-2.3469, 2.2849, 0.028, 1.0135, 2.6149, 1.6375]),
        ("qwen3", {"head_dim": 24}, [-0.3731, 3.5939, -1.4273, 0.2712, 1.5114, 0.7676]),
        ("gemma", {"head_dim": 24}, GEMMA),
        ("gemma", {"head_dim": 24, "hidden_act": "gelu"}, GEMMA),
    ],
)  # fmt: skip
def test_logits(tmp_path: Path, architecture: str, options: dict[str, Any], expected: list[float]) -> None:
    write_folder(tmp_path, architecture, **options)
    logits = run(from_huggingface(tmp_path, shapes={"tokens": (1, len(TOKENS))}), TOKENS)[0]
    np.testing.assert_allclose(logits[:6], expected, rtol=0, atol=2e-4)


def test_defaults_that_are_not_those_of_llama(tmp_path: Path) -> None:
    """Mistral attends to 4096 tokens unless its configuration has another window, or null."""
    write_folder(tmp_path, "mistral", max_position_embeddings=8192)
    with pytest.raises(UnsupportedOperator, match="attention to a window of 4096 tokens is not supported"):
        from_huggingface(tmp_path)
    write_folder(tmp_path, "mistral", max_position_embeddings=8192, sliding_window=None)
    assert from_huggingface(tmp_path).inputs
    write_folder(tmp_path, "llama", quantization_config={"quant_method": "gptq"})
    with pytest.raises(UnsupportedOperator, match=r"a model with quantised weights \(quantization_config\)"):
        from_huggingface(tmp_path)
