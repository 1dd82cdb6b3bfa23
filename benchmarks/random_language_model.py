"""Write a GGUF file with the sizes of TinyLlama-1.1B and random weights in one format, to measure the format.

The package `gguf` writes the file. The weights are random blocks, whose scales are small enough for logits of a usual
size.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

WIDTH, HIDDEN, HEADS, KEY_HEADS, HEAD, VOCABULARY = 2048, 5632, 32, 4, 64, 32000
LAYERS, CONTEXT = 22, 2048
FORMATS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")

# For each format, where a block has float16 numbers, and the integers that they multiply at most.
_HALVES = {
    "Q4_0": ((0, 8),), "Q4_1": ((0, 16), (2, 2)), "Q5_0": ((0, 16),), "Q5_1": ((0, 32), (2, 2)), "Q8_0": ((0, 128),),
    "Q4_K": ((0, 64 * 16), (2, 64 * 2)), "Q5_K": ((0, 64 * 32), (2, 64 * 2)), "Q6_K": ((208, 128 * 32),),
}  # fmt: skip


def write(path: str | os.PathLike[str], kind: str, layers: int = LAYERS) -> None:
    """Write a model whose matrices, embedding included, all have the format `kind`, one of `FORMATS`."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(f"random {kind}")
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_vocabulary(writer)
    shapes = {"token_embd": (VOCABULARY, WIDTH), "output": (VOCABULARY, WIDTH), "output_norm": (WIDTH,)}
    for layer in range(layers):
        part = {
            "attn_norm": (WIDTH,), "attn_q": (HEADS * HEAD, WIDTH), "attn_k": (KEY_HEADS * HEAD, WIDTH),
            "attn_v": (KEY_HEADS * HEAD, WIDTH), "attn_output": (WIDTH, HEADS * HEAD), "ffn_norm": (WIDTH,),
            "ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN),
        }  # fmt: skip
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in part.items()}
    for number, (name, shape) in enumerate(shapes.items()):
        if len(shape) == 1:
            writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
        else:
            blocks = random_blocks(kind, *shape, seed=number)
            writer.add_tensor(f"{name}.weight", blocks, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_blocks(kind: str, columns: int, depth: int, seed: int = 0) -> np.ndarray:
    """Return uint8 [columns, bytes], a matrix of random weights of at most about 2 / sqrt(depth)."""
    import gguf

    size, nbytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    rng = np.random.default_rng(seed)
    data = np.frombuffer(rng.bytes(columns * depth // size * nbytes), np.uint8).reshape(columns, -1, nbytes).copy()
    for at, largest in _HALVES[kind]:
        scale = rng.uniform(1, 2, data.shape[:2]) / largest / np.sqrt(depth)
        data[..., at : at + 2] = scale.astype("<f2")[..., None].view(np.uint8)
    return data.reshape(columns, -1)


def _add_vocabulary(writer: Any) -> None:
    """Add the metadata of a vocabulary of bytes and of made-up words, which no text is split into."""
    special, words = ["<unk>", "<s>", "</s>"], [f"<0x{byte:02X}>" for byte in range(256)]
    others = [f"▁{number}" for number in range(VOCABULARY - len(special) - len(words))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*special, *words, *others])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([2, 3, 3, *[6] * len(words), *[1] * len(others)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
