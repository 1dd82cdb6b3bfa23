"""Small GGUF models with random weights, written by the `gguf` package, and a decoder in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

SIZES = {"depth": 2, "width": 64, "heads": 4, "key_heads": 2, "hidden": 96, "vocabulary": 50, "context": 24}
_QUANTISED = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output", "token_embd")


def write_model(
    path: Path, architecture: str = "llama", kind: str = "F32", seed: int = 0, tied: bool = True,
    metadata: dict[str, Any] | None = None, factors: np.ndarray | None = None,
    words: dict[str, Any] | None = None, **changed: int,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Write a model whose matrices have the format `kind`; return its weights as float32, by name.

    `metadata` adds metadata of the architecture, or changes them; None removes one. `words` has the metadata of a
    vocabulary.
    """
    sizes = {**SIZES, **changed}
    width, hidden = sizes["width"], sizes["hidden"]
    head = sizes.get("head_width", width // sizes["heads"])
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, architecture)
    numbers: dict[str, Any] = {
        "block_count": sizes["depth"], "context_length": sizes["context"], "embedding_length": width,
        "feed_forward_length": hidden, "attention.head_count": sizes["heads"],
        "attention.head_count_kv": sizes["key_heads"], "attention.layer_norm_rms_epsilon": 1e-5,
        **({"attention.key_length": head, "attention.value_length": head} if head != width // sizes["heads"] else {}),
        **(metadata or {}),
    }  # fmt: skip
    for key, value in (words or {}).items():
        kind_of = {str: writer.add_string, int: writer.add_uint32, bool: writer.add_bool, list: writer.add_array}
        kind_of[type(value)](key, value)
    for key, value in numbers.items():
        if isinstance(value, str):
            writer.add_string(f"{architecture}.{key}", value)
        elif isinstance(value, float):
            writer.add_float32(f"{architecture}.{key}", value)
        elif value is not None:
            writer.add_uint32(f"{architecture}.{key}", value)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (sizes["vocabulary"], width), "output_norm.weight": (width,),
        **({} if tied else {"output.weight": (sizes["vocabulary"], width)}),
    }  # fmt: skip
    for k in range(sizes["depth"]):
        layer = {
            "attn_norm.weight": (width,), "ffn_norm.weight": (width,), "attn_q.weight": (sizes["heads"] * head, width),
            "attn_k.weight": (sizes["key_heads"] * head, width), "attn_v.weight": (sizes["key_heads"] * head, width),
            "attn_output.weight": (width, sizes["heads"] * head), "ffn_gate.weight": (hidden, width),
            "ffn_up.weight": (hidden, width), "ffn_down.weight": (width, hidden),
        }  # fmt: skip
        if architecture == "qwen2":
            layer |= {f"attn_{p}.bias": layer[f"attn_{p}.weight"][:1] for p in "qkv"}
        if architecture == "qwen3":
            layer |= {f"attn_{p}_norm.weight": (head,) for p in "qk"}
        shapes |= {f"blk.{k}.{name}": shape for name, shape in layer.items()}
    weights = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            array = rng.uniform(0.5, 1.5, shape) if name.endswith("norm.weight") else rng.normal(0, 0.3, shape)
        else:
            array = rng.normal(0, 1.5 / np.sqrt(shape[1]), shape)
        weights[name] = add_tensor(writer, name, array.astype(np.float32), kind, seed)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def add_tensor(writer: Any, name: str, array: np.ndarray, kind: str, seed: int) -> np.ndarray:
    """Add a tensor in a format; return the numbers that it holds then."""
    if array.ndim == 1 or kind == "F32":
        writer.add_tensor(name, array)
        return array
    form = gguf.GGMLQuantizationType[kind]
    try:
        data = gguf.quants.quantize(array, form)
    except NotImplementedError:  # the package only reads this format: take random blocks
        size, _ = gguf.GGML_QUANT_SIZES[form]
        data = random_blocks(kind, array.shape[0] * array.shape[1] // size, array.shape[1], seed + len(name))
        data = data.reshape(array.shape[0], -1)
    writer.add_tensor(name, data, raw_dtype=form)
    return gguf.quants.dequantize(data, form).astype(np.float32).reshape(array.shape)


def random_blocks(kind: str, count: int, depth: int, seed: int) -> np.ndarray:
    """Return uint8 [count, bytes] with weights of about 1 / sqrt(depth)."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (count, gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]), np.uint8)
    place = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}[kind]
    for at in place:
        scale = rng.uniform(0.5, 1.5, count) / np.sqrt(depth) / {"Q4_K": 200, "Q5_K": 400, "Q6_K": 1200}[kind]
        data[:, at : at + 2] = scale.astype("<f2")[:, None].view(np.uint8)
    return data


class NumPyDecoder:
    """The decoder by its definition in float64: all tokens of a text at once, without caches."""

    def __init__(
        self, architecture: str, weights: dict[str, np.ndarray], base: float = 10000.0, scale: float = 1.0,
        factors: np.ndarray | None = None, rotated: int | None = None, **changed: int,
    ) -> None:  # fmt: skip
        self.architecture, self.sizes = architecture, {**SIZES, **changed}
        self.weights = {name: array.astype(np.float64) for name, array in weights.items()}
        self.head = self.sizes.get("head_width", self.sizes["width"] // self.sizes["heads"])
        self.rotated = self.head if rotated is None else rotated
        self.steps = scale * base ** -(np.arange(0, self.rotated, 2) / self.rotated)
        self.steps = self.steps if factors is None else self.steps / factors

    def logits(self, tokens: list[int]) -> np.ndarray:
        """Return the logits after each token, [length, vocabulary]."""
        x = self.weights["token_embd.weight"][tokens]
        if self.architecture == "gemma":
            x = x * np.sqrt(self.sizes["width"])
        for k in range(self.sizes["depth"]):
            x = x + self.attention(self.norm(x, f"blk.{k}.attn_norm.weight"), f"blk.{k}.")
            y = self.norm(x, f"blk.{k}.ffn_norm.weight")
            gate, up = (y @ self.weights[f"blk.{k}.ffn_{p}.weight"].T for p in ("gate", "up"))
            if self.architecture == "gemma":
                gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
            else:
                gate = gate / (1 + np.exp(-gate))
            x = x + gate * up @ self.weights[f"blk.{k}.ffn_down.weight"].T
        x = self.norm(x, "output_norm.weight")
        return np.asarray(x @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T)

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * self.weights[name])

    def attention(self, y: np.ndarray, layer: str) -> np.ndarray:
        parts = {}
        for p, heads in (("q", self.sizes["heads"]), ("k", self.sizes["key_heads"]), ("v", self.sizes["key_heads"])):
            rows = y @ self.weights[f"{layer}attn_{p}.weight"].T + self.weights.get(f"{layer}attn_{p}.bias", 0.0)
            rows = rows.reshape(len(y), heads, self.head)
            if f"{layer}attn_{p}_norm.weight" in self.weights:
                rows = self.norm(rows, f"{layer}attn_{p}_norm.weight")
            parts[p] = rows if p == "v" else self.rotate(rows)
        each = self.sizes["heads"] // self.sizes["key_heads"]
        mixed = np.zeros_like(parts["q"])
        for h in range(self.sizes["heads"]):
            for t in range(len(y)):
                scores = parts["k"][: t + 1, h // each] @ parts["q"][t, h] / np.sqrt(self.head)
                weights = np.exp(scores - scores.max())
                mixed[t, h] = weights / weights.sum() @ parts["v"][: t + 1, h // each]
        return np.asarray(mixed.reshape(len(y), -1) @ self.weights[f"{layer}attn_output.weight"].T)

    def rotate(self, rows: np.ndarray) -> np.ndarray:
        """Turn each pair of features, as a complex number."""
        result = rows.copy()
        first = np.arange(0, self.rotated, 2) if self.architecture == "llama" else np.arange(self.rotated // 2)
        second = first + (1 if self.architecture == "llama" else self.rotated // 2)
        turn = np.exp(1j * np.arange(len(rows))[:, None, None] * self.steps)
        pairs = (rows[..., first] + 1j * rows[..., second]) * turn
        result[..., first], result[..., second] = pairs.real, pairs.imag
        return result
