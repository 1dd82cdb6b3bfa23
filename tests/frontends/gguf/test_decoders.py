"""Decoders from GGUF files, compared with a decoder in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.errors import InputError
from minitvm.frontends import from_gguf, read_gguf
from minitvm.reference import graph as interpreter

from .models import NumPyDecoder, write_model

TOKENS = [3, 17, 42, 8, 8, 29, 0]
ARCHITECTURES = ["llama", "mistral", "qwen2", "qwen3", "gemma"]


def run(graph: Any, tokens: list[int], position: int = 0) -> np.ndarray:
    """The logits after each of the tokens, by the interpreter."""
    arrays = {"tokens": np.array([tokens], "int32"), "positions": np.array([position], "int32")}
    inputs = [
        arrays[v.name] if v.name in arrays else np.zeros([int(d) for d in v.shape], "float32") for v in graph.inputs
    ]
    return np.asarray(interpreter.run(graph, inputs)[0])


def steps(module: Any, tokens: list[int], first: int = 0) -> list[np.ndarray]:
    """The logits after each token, one run for each."""
    return [
        module(tokens=np.array([[t]], "int32"), positions=np.array([first + k], "int32"))[0]
        for k, t in enumerate(tokens)
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_meaning(tmp_path: Path, architecture: str) -> None:
    """In floats, the graph computes what the definition says."""
    path = tmp_path / "model.gguf"
    other = {"head_width": 24} if architecture in ("qwen3", "gemma") else {}
    weights = write_model(path, architecture, tied=architecture != "mistral", **other)
    name = "llama" if architecture == "mistral" else architecture
    expected = NumPyDecoder(name, weights, **other).logits(TOKENS)
    graph = from_gguf(path, shapes={"tokens": (1, len(TOKENS))}, all_logits=True)
    found = run(graph, TOKENS)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("metadata", "options", "factors"),
    [
        ({"rope.freq_base": 500.0}, {"base": 500.0}, None),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, {"scale": 0.25}, None),
        ({"rope.dimension_count": 8}, {"rotated": 8}, None),
        ({}, {}, np.array([1.0, 1.5, 2, 3, 5, 8, 8, 8])),
    ],
)
def test_rotations(tmp_path: Path, metadata: dict[str, Any], options: dict[str, Any], factors: Any) -> None:
    path = tmp_path / "model.gguf"
    weights = write_model(path, metadata=metadata, factors=factors)
    expected = NumPyDecoder("llama", weights, factors=factors, **options).logits(TOKENS)
    found = run(from_gguf(path, shapes={"tokens": (1, len(TOKENS))}, all_logits=True), TOKENS)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    "kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
)  # fmt: skip
def test_formats(tmp_path: Path, kind: str) -> None:
    """With weights as floats, the logits are those of the stored numbers; in bytes, they are near them."""
    path = tmp_path / "model.gguf"
    sizes = {"width": 256, "hidden": 256, "depth": 1} if kind.endswith("_K") else {"depth": 1}
    weights = write_model(path, "llama", kind, **sizes)
    expected = NumPyDecoder("llama", weights, **sizes).logits(TOKENS)
    for in_bytes, off in ((False, 1e-4), (True, 0.05)):
        graph = from_gguf(path, shapes={"tokens": (1, len(TOKENS))}, bytes=in_bytes, all_logits=True)
        used = "qnn.contrib_dense_of_blocks" in {item.op for item in graph.nodes}
        assert used == (in_bytes and kind not in ("F16", "BF16"))
        found = run(graph, TOKENS)
        np.testing.assert_allclose(found[0], expected, rtol=0, atol=off * np.abs(expected).max())


@pytest.mark.full
@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"])
def test_formats_on_gpus(tmp_path: Path, kind: str, target: str) -> None:
    """A model in each format computes the same on a GPU: here CUDA's simulator and PoCL."""
    path = tmp_path / "model.gguf"
    sizes = {"width": 256, "hidden": 256, "depth": 1} if kind.endswith("_K") else {"depth": 1}
    write_model(path, "llama", kind, **sizes)
    expected, found = (
        steps(minitvm.build(path, one, shapes={"tokens": (1, 1)}, max_length=8), TOKENS[:3]) for one in ("cpu", target)
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["F32", "Q4_1", "Q8_0"])
def test_prompts_and_single_tokens_agree(tmp_path: Path, kind: str) -> None:
    """A program with an open length reads a prompt; its caches go on in a program of one token."""
    path = tmp_path / "model.gguf"
    write_model(path, "llama", kind)
    one = minitvm.build(path, shapes={"tokens": (1, 1)}, threads=1)
    prompt = minitvm.build(path, threads=1)
    alone = steps(one, TOKENS)
    for length in (1, 3, len(TOKENS) - 1):
        prompt.reset()
        logits = prompt(tokens=np.array([TOKENS[:length]], "int32"), positions=np.zeros(1, "int32"))[0]
        np.testing.assert_allclose(logits, alone[length - 1], rtol=0, atol=1e-4 * np.abs(logits).max())
        one.state.update(prompt.state)
        rest = steps(one, TOKENS[length:], length)
        np.testing.assert_allclose(rest, alone[length:], rtol=0, atol=1e-4 * np.abs(logits).max())


def test_caches_in_float16(tmp_path: Path) -> None:
    """They take half of the memory, and the logits differ by rounding only: of prompts, and of tokens that follow."""
    path = tmp_path / "model.gguf"
    write_model(path, depth=1)
    one, prompt = (
        minitvm.build(path, shapes={"tokens": (1, n)}, cache_dtype="float16", threads=1) for n in (1, "length")
    )
    wide = minitvm.build(path, shapes={"tokens": (1, 1)}, threads=1)
    prompt.share_states(one)
    assert {str(x.dtype) for x in one.state.values()} == {"float16"}
    assert 2 * sum(x.nbytes for x in one.state.values()) == sum(x.nbytes for x in wide.state.values())
    expected = steps(wide, TOKENS)
    first = prompt(tokens=np.array([TOKENS[:3]], "int32"), positions=np.zeros(1, "int32"))[0]
    found = [first, *steps(one, TOKENS[3:], 3)]
    np.testing.assert_allclose(found, expected[2:], rtol=0, atol=5e-3 * np.abs(expected).max())
    assert np.abs(np.array(found) - expected[2:]).max() > 0, "nothing was rounded"
    with pytest.raises(InputError, match="cache_dtype='int8': wanted float32 or float16"):
        from_gguf(path, cache_dtype="int8")


def test_rows_of_a_batch_have_positions_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path)
    single, pair = (minitvm.build(path, shapes={"tokens": (b, 1)}, threads=1) for b in (1, 2))
    texts = (TOKENS, [5, 6, 7])
    expected = []
    for text in texts:
        single.reset()
        expected.append(steps(single, text))
    at = [0, 0]
    for rows in ((1, 1), (1, 0), (1, 1), (1, 1)):  # the second text pauses once: it writes its last token again
        tokens = np.array([[text[min(p, len(text) - 1)]] for text, p in zip(texts, at, strict=True)], "int32")
        logits = pair(tokens=tokens, positions=np.array(at, "int32"))
        for k, moves in enumerate(rows):
            if moves and at[k] < len(texts[k]):
                np.testing.assert_allclose(logits[k], expected[k][at[k]], rtol=1e-4, atol=1e-5)
            at[k] += moves


def test_texts_in_slots_do_not_depend_on_each_other(tmp_path: Path) -> None:
    """A batch of any texts, in any slots, has the bits of each text alone, and the logits of a program for one text."""
    path = tmp_path / "model.gguf"
    write_model(path, kind="Q8_0")
    file = read_gguf(path)
    batch, prompt = (
        minitvm.build(from_gguf(file, shapes={"tokens": shape}, slots=4), threads=1)
        for shape in (("batch", 1), (1, "length"))
    )
    prompt.share_states(batch)
    single = minitvm.build(from_gguf(file, shapes={"tokens": (1, 1)}), threads=1)

    def read(text: list[int], slot: int) -> np.ndarray:
        arrays = {"tokens": [text], "positions": [0], "slots": [slot]}
        return np.asarray(prompt(**{name: np.array(array, "int32") for name, array in arrays.items()})[0])

    def go_on(rows: list[tuple[int, int, int]]) -> np.ndarray:
        tokens, positions, slots = (np.array(column, "int32") for column in zip(*rows, strict=True))
        return np.asarray(batch(tokens=tokens[:, None], positions=positions, slots=slots))

    rng = np.random.default_rng(0)
    texts = [[int(t) for t in rng.integers(0, 50, rng.integers(6, 20))] for _ in range(12)]
    alone = []
    for text in texts:
        slot = int(rng.integers(4))
        alone.append([read(text[:4], slot), *(go_on([(text[k], k, slot)])[0] for k in range(4, len(text)))])
        single.reset()
        np.testing.assert_allclose(alone[-1], steps(single, text)[3:], rtol=0, atol=1e-4)
    waiting, running = list(range(len(texts))), {}
    while waiting or running:
        free = [slot for slot in range(4) if slot not in running]
        if free and waiting:  # one text enters, while the others go on
            number, slot = waiting.pop(), int(rng.choice(free))
            running[slot] = (number, 4)
            np.testing.assert_array_equal(read(texts[number][:4], slot), alone[number][0])
        order = [int(slot) for slot in rng.permutation(list(running))]
        logits = go_on([(texts[n][at], at, slot) for slot in order for n, at in [running[slot]]])
        for row, slot in enumerate(order):
            number, at = running.pop(slot)
            np.testing.assert_array_equal(logits[row], alone[number][at - 3])
            if at + 1 < len(texts[number]):
                running[slot] = (number, at + 1)


def test_slots_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, depth=1)
    module = minitvm.build(from_gguf(path, shapes={"tokens": ("batch", 1)}, slots=2), threads=1)
    arrays = {"tokens": np.zeros((2, 1), "int32"), "positions": np.zeros(2, "int32")}
    with pytest.raises(InputError, match=r"uses one of 2 entries of \w+\n  wanted: slots from 0 to 1\n  found:  2"):
        module(**arrays, slots=np.array([0, 2], "int32"))
    for slots in (0, 1.0, True):
        with pytest.raises(InputError, match="wanted a number of slots, at least 1, found"):
            from_gguf(path, slots=slots)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="GB for caches of 24 tokens for each of 1000000000000 texts"):
        from_gguf(path, slots=10**12)
