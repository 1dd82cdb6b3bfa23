"""Decoders from folders of Hugging Face, compared with a decoder in NumPy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitvm
from minitvm.errors import MinitvmError, ModelError, UnsupportedOperator
from minitvm.frontends import from_huggingface
from minitvm.frontends.huggingface.importer import _NAMES, _NAMES_IN_LAYER
from tests.frontends.gguf.models import SIZES, NumPyDecoder, write_model
from tests.frontends.gguf.test_decoders import TOKENS, run

CONFIG = {
    "hidden_size": SIZES["width"], "num_attention_heads": SIZES["heads"], "num_key_value_heads": SIZES["key_heads"],
    "intermediate_size": SIZES["hidden"], "vocab_size": SIZES["vocabulary"], "rms_norm_eps": 1e-5,
    "max_position_embeddings": SIZES["context"], "num_hidden_layers": SIZES["depth"], "rope_theta": 10000,
}  # fmt: skip


def their_name(name: str) -> str:
    """The name of a weight in a folder, from that in a GGUF file."""
    stem, kind = name.rsplit(".", 1)
    if not stem.startswith("blk."):
        return f"{next(k for k, v in _NAMES.items() if v == stem)}.{kind}"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{next(k for k, v in _NAMES_IN_LAYER.items() if v == part)}.{kind}"


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    header, data = dict[str, Any](), b""
    for name, array in arrays.items():
        kind = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "I8"}[array.dtype.name]
        end = len(data) + array.nbytes
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_folder(
    folder: Path, architecture: str, dtype: Any = np.float32, files: int = 1, tied: bool = True,
    model: dict[str, Any] | None = None, **changed: Any,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Write a model with random weights; return them by the names of GGUF. `model` has options of `write_model`."""
    other = {**(model or {}), **({"head_width": changed["head_dim"]} if "head_dim" in changed else {})}
    weights = write_model(folder / "same.gguf", architecture, tied=tied, **other)
    weights = {name: array.astype(dtype) for name, array in weights.items()}
    one = {n: 1 if architecture == "gemma" and n.endswith("norm.weight") else 0 for n in weights}
    arrays = {their_name(n): (a.astype(np.float32) - one[n]).astype(dtype) for n, a in weights.items()}
    (folder / "config.json").write_text(json.dumps({"model_type": architecture, **CONFIG, **changed}))
    if files == 1:
        write_arrays(folder / "model.safetensors", arrays)
    else:
        places = {name: f"model-{k % files}.safetensors" for k, name in enumerate(arrays)}
        for file in set(places.values()):
            write_arrays(folder / file, {n: a for n, a in arrays.items() if places[n] == file})
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return {n: arrays[their_name(n)].astype(np.float32) + one[n] for n in weights}


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("llama", {"files": 3}), ("mistral", {"tied": False, "dtype": ml_dtypes.bfloat16, "sliding_window": 24}),
        ("qwen2", {"dtype": np.float16, "sliding_window": 8, "use_sliding_window": False}),
        ("qwen3", {"head_dim": 24}), ("gemma", {"head_dim": 24, "hidden_act": "gelu_pytorch_tanh"}),
    ],
)  # fmt: skip
def test_meaning(tmp_path: Path, architecture: str, options: dict[str, Any]) -> None:
    weights = write_folder(tmp_path, architecture, **options)
    other = {"head_width": options["head_dim"]} if "head_dim" in options else {}
    kind = "mistral" if architecture == "llama" else architecture  # whose rotated pairs are not neighbours
    expected = NumPyDecoder(kind, weights, **other).logits(TOKENS)
    found = run(from_huggingface(tmp_path, shapes={"tokens": (1, len(TOKENS))}, all_logits=True), TOKENS)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 4.0},
        {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ],
)  # fmt: skip
def test_positions(tmp_path: Path, scaling: dict[str, Any]) -> None:
    weights = write_folder(tmp_path, "llama", rope_scaling=scaling)
    factors = np.full(8, scaling["factor"])
    if scaling["rope_type"] == "llama3":
        for k in range(8):  # the definition, case by case
            wave = 2 * math.pi * 10000 ** (2 * k / 16)
            if wave < 64 / 4:
                factors[k] = 1
            elif wave <= 64:
                smooth = (64 / wave - 1) / 3
                factors[k] = 1 / ((1 - smooth) / 8 + smooth)
        assert len(set(factors)) > 2
    expected = NumPyDecoder("mistral", weights, factors=factors).logits(TOKENS)
    found = run(from_huggingface(tmp_path, shapes={"tokens": (1, len(TOKENS))}, all_logits=True), TOKENS)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_build_takes_the_configuration(tmp_path: Path) -> None:
    weights = write_folder(tmp_path, "llama")
    module = minitvm.build(tmp_path / "config.json", shapes={"tokens": (1, 3)}, max_length=8, threads=1)
    logits = module(tokens=np.array([TOKENS[:3]], "int32"), positions=np.zeros(1, "int32"))
    expected = NumPyDecoder("mistral", weights).logits(TOKENS[:3])[-1]
    np.testing.assert_allclose(logits[0], expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"model_type": "phi"}, UnsupportedOperator, "the architecture 'phi' is not supported"),
        ({"hidden_act": "relu"}, UnsupportedOperator, r"the activation 'relu' in a model of llama \(hidden_act\)"),
        ({"sliding_window": 8}, UnsupportedOperator, "attention to a window of 8 tokens is not supported"),
        ({"rope_scaling": {"type": "yarn"}}, UnsupportedOperator, "positions scaled as 'yarn'"),
        ({"hidden_size": "64"}, ModelError, "the metadata 'hidden_size' are '64', wanted an integer"),
        ({"vocab_size": 51}, ModelError, r"the weight 'token_embd.weight' has the shape \[50, 64\], wanted \[51, 64\]"),
        ({"num_hidden_layers": 1}, UnsupportedOperator, r"the weight 'blk.1.attn_k.weight' \(and 8 others\) has no"),
        ({"num_key_value_heads": 3}, ModelError, "4 heads, 3 heads of keys and 16 rotated features of 16"),
    ],
)
def test_refusals(tmp_path: Path, change: dict[str, Any], kind: type[MinitvmError], text: str) -> None:
    write_folder(tmp_path, "llama", **change) if "model_type" not in change else write_folder(tmp_path, "llama")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **CONFIG, **change}))
    with pytest.raises(kind, match=text):
        from_huggingface(tmp_path)


def test_damaged_files(tmp_path: Path) -> None:
    write_folder(tmp_path, "llama")
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    for content, text in (
        (whole[:4], "it has only 4 bytes"),
        (b"\xff" * 8 + whole[8:], "wanted a header of"),
        (whole[:-9], "beyond the"),
        (whole.replace(b'{"__meta', b'["__meta', 1), "its header is not JSON"),
        ((10**5).to_bytes(8, "little") + b"[" * 10**5, "its header is not JSON"),
        (whole.replace(b'"shape": [50, 64]', b'"shape": [50, 63]', 1), r"has the shape \[50, 63\] and the bytes"),
        (whole.replace(b'"shape": [50, 64]', b'"shape": [50, "a"', 1), "its header is not JSON"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=text):
            from_huggingface(tmp_path)
    write_arrays(path, {"model.norm.weight": np.ones(64, np.int8)})
    with pytest.raises(UnsupportedOperator, match="model.norm.weight has the dtype I8"):
        from_huggingface(tmp_path)
    write_arrays(path, {"model.strange.weight": np.ones(64, np.float32)})
    with pytest.raises(ModelError, match=r"the weight 'model.strange.weight' has no place in this architecture"):
        from_huggingface(tmp_path)
    path.unlink()
    with pytest.raises(ModelError, match=r"model.safetensors: no such file"):
        from_huggingface(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config.json: no such file"):
        from_huggingface(tmp_path)
