"""Convert the model in a folder of Hugging Face to a graph."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ModelError
from ...graph.nodes import Graph
from ..common.decoder import DecoderWeights, decoder
from ..common.decoder_config import DecoderConfig, DecoderOptions, Entries, graph_name, run_sizes
from .safetensors import read_arrays

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
# Names of weights, and the names that GGUF gives them. A layer's names follow "model.layers.0.".
_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_NAMES_IN_LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_COMPUTED = "rotary_emb.inv_freq"  # a table that old files contain
# Activations, and the operators that the architectures have for them. Files of Gemma name the one with tanh "gelu".
_ACTIVATIONS = {"silu": "nn.silu", "gelu": "nn.gelu", "gelu_pytorch_tanh": "nn.gelu"}
# Entries that some architectures have by default; the other defaults are those of Llama.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma": {"hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
    "mistral": {"sliding_window": 4096},
    "qwen2": {"use_sliding_window": False},
    "qwen3": {"use_sliding_window": False},
}


@dataclass(frozen=True, slots=True)
class HuggingFaceFolder:
    """The configuration and the weights in a folder. Graphs of one such object share their constants."""

    path: Path
    config: dict[str, Any]
    weights: DecoderWeights

    def table(self, name: str) -> dict[str, Any]:
        """Return the table in another JSON file of the folder; it is empty if there is no such file.

        Raises `ModelError` if the file is damaged.
        """
        return _table(self.path / name) if (self.path / name).exists() else {}


def read_folder(folder: str | os.PathLike[str]) -> HuggingFaceFolder:
    """Return the contents of a folder; see `read_huggingface`."""
    place = Path(folder)
    place = place.parent if place.name == "config.json" else place
    table = _table(place / "config.json")
    entries = Entries(str(place / "config.json"), table)
    architecture = entries.known_architecture(entries.value("model_type", str))
    table = {**_DEFAULTS.get(architecture, {}), **table}
    entries = Entries(entries.source, table)
    if entries.value("quantization_config", dict, {}):
        entries.refuse("quantization_config", "a model with quantised weights")
    stored = _all_arrays(place).items()
    arrays = {_name(place, name): array for name, array in stored if not name.endswith(_COMPUTED)}
    plus_one = architecture == "gemma"  # whose files contain the weights of norms less 1

    def read(name: str) -> np.ndarray:
        array = arrays[name]
        return array.astype(np.float32) + np.float32(1) if plus_one and name.endswith("norm.weight") else array

    names = [n for n in arrays if n != "output.weight"] if entries.value("tie_word_embeddings", bool, False) else arrays
    return HuggingFaceFolder(place, table, DecoderWeights(str(place), names, read))


def import_folder(
    folder: HuggingFaceFolder, shapes: Mapping[str, Sequence[Any]], max_length: int | None, *, slots: int | None,
    all_logits: bool, cache_dtype: str,
) -> Graph:  # fmt: skip
    """Return the graph of a folder; see `from_huggingface`."""
    entries = Entries(str(folder.path / "config.json"), folder.config)
    batch, length = run_sizes(shapes, slots)
    options = DecoderOptions(batch=batch, length=length, slots=slots, all_logits=all_logits, cache_dtype=cache_dtype)
    config = _config(entries, entries.value("model_type", str), max_length, options)
    return decoder(graph_name(folder.path.resolve().name), config, folder.weights, options)


def _config(entries: Entries, architecture: str, context: int | None, options: DecoderOptions) -> DecoderConfig:
    heads, width = entries.size("num_attention_heads"), entries.size("hidden_size")
    head_width = entries.size("head_dim", width // heads)
    activation = entries.value("hidden_act", str, "silu")
    window = entries.value("sliding_window", int, 0) if entries.value("use_sliding_window", bool, True) else 0
    rope = entries.value("rope_scaling", dict, {}) or entries.value("rope_parameters", dict, {})
    scaling = Entries(entries.source, rope)
    base = scaling.positive("rope_theta", entries.positive("rope_theta", 10000.0))
    kind = scaling.value("rope_type", str, scaling.value("type", str, "default"))
    if kind not in ("default", "linear", "llama3"):
        entries.refuse("rope_scaling", f"positions scaled as {kind!r}")
    config = entries.config(
        architecture, context, entries.size("max_position_embeddings"), window, options,
        depth=entries.size("num_hidden_layers"), width=width, heads=heads,
        key_heads=entries.size("num_key_value_heads", heads), head_width=head_width,
        hidden=entries.size("intermediate_size"), vocabulary=entries.size("vocab_size"),
        epsilon=entries.positive("rms_norm_eps", 1e-6), rotated=head_width, rope_base=base,
        rope_scale=1.0 / scaling.positive("factor") if kind == "linear" else 1.0,
        rope_factors=_llama3_factors(scaling, base, head_width) if kind == "llama3" else None,
    )  # fmt: skip
    if _ACTIVATIONS.get(activation) != config.activation:
        entries.refuse("hidden_act", f"the activation {activation!r} in a model of {architecture}")
    return config


def _llama3_factors(scaling: Entries, base: float, width: int) -> np.ndarray:
    """Return the divisors of the angles' steps: `factor` for long waves, 1 for short ones, and a mixture in between."""
    factor, low, high = (scaling.positive(name) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    trained = scaling.size("original_max_position_embeddings")
    steps = base ** -(np.arange(0, width, 2) / width)
    waves = 2 * math.pi / steps
    share = np.clip((trained / waves - low) / (high - low), 0, 1)  # of the step that is not divided
    factors: np.ndarray = 1 / ((1 - share) / factor + share)
    return factors


def _name(folder: Path, name: str) -> str:
    """Return the name that GGUF gives a weight. Raises `ModelError` for a weight that no architecture has."""
    stem, _, kind = name.rpartition(".")
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem)
    if layer is not None and layer[2] in _NAMES_IN_LAYER:
        return f"blk.{layer[1]}.{_NAMES_IN_LAYER[layer[2]]}.{kind}"
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{kind}"
    raise ModelError(f"{folder}: the weight {name!r} has no place in this architecture")


def _all_arrays(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a model, which may be in several files."""
    if not (folder / _INDEX).is_file():
        return read_arrays(folder / _SINGLE)
    places = _table(folder / _INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ModelError(f"{folder / _INDEX}: wanted a table 'weight_map' of files")
    arrays: dict[str, np.ndarray] = {}
    for file in sorted(set(places.values())):
        if Path(file).name != file:
            raise ModelError(f"{folder / _INDEX}: the file {file!r} is not in this folder")
        arrays |= read_arrays(folder / file)
    return arrays


def _table(path: Path) -> dict[str, Any]:
    """Return the table in a file of JSON. Raises `ModelError`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not a file of JSON, or a damaged one: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} contains no table")
    return content
