"""A language model that decodes: tokens per second beside ONNX Runtime, which runs the same file.

    python -m benchmarks.decoder [layers]

`tools.models.decoder`: the sizes of TinyLlama, weights of 4 bits in blocks of 32, a context of 2048, fewer layers (4).
One token is decoded at an early place of the context and at a late one, several times in a turn, as in a text. ONNX
Runtime's caches are bound as inputs and as outputs, so that it updates them where they lie, as we do.

What bounds it: each token reads every weight once, 4 bits and its share of a scale of float32 (5 bits together). So
tokens per second are at most the rate at which memory is read, divided by these bytes and those of the filled caches.
A kernel that only reads is measured in turn with the others, as the rate depends on who else uses the memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import minitvm
from minitvm.tools.models.decoder import decoder

from . import harness, reading

WANTED = 1.2
PLACES = (64, 2000)
_CONTEXT, _SIZES = 2048, {"width": 2048, "heads": 32, "key_heads": 4, "hidden": 5632, "vocabulary": 32000}

Step = Callable[[int, int], np.ndarray]


def inputs_of(token: int, place: int) -> dict[str, np.ndarray]:
    """One token at a place."""
    return {
        "input_ids": np.array([[token]], np.int64), "seqlens_k": np.array([place], np.int32),
        "total_sequence_length": np.array([place + 1], np.int32),
    }  # fmt: skip


def onnx_runtime(model: Any, caches: dict[str, np.ndarray], threads: int) -> Step:
    """One step of ONNX Runtime, in place."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in caches.items():
        memory = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        binding.bind_ortvalue_input(name, memory)
        binding.bind_ortvalue_output(name.replace("past_key_values", "present"), memory)
    binding.bind_output("logits", "cpu")

    def step(token: int, place: int) -> np.ndarray:
        for name, array in inputs_of(token, place).items():
            binding.bind_cpu_input(name, array)
        session.run_with_iobinding(binding)
        logits: np.ndarray = binding.get_outputs()[-1].numpy()
        return logits

    return step


def bytes_of(model: Any, place: int) -> int:
    """What one token reads: all weights but the table of tokens, and the filled part of the caches."""
    weights = sum(len(w.raw_data) for w in model.graph.initializer if w.name not in ("table", "cosines", "sines"))
    rows = sum(i.name.startswith("past") for i in model.graph.input) * _SIZES["key_heads"] * (place + 1)
    return int(weights + rows * _SIZES["width"] // _SIZES["heads"] * 4)


def measured(model: Any, threads: int) -> list[harness.Row]:
    """A step of ours and of ONNX Runtime at some places, after a check that they agree."""
    module = minitvm.build(model, states=True, threads=threads)
    rng = np.random.default_rng(0)
    caches = {name: (rng.standard_normal(old.shape) / 4).astype(np.float32) for name, old in module.state.items()}
    module.state.update(caches)
    theirs = onnx_runtime(model, caches, threads)
    read_memory = reading.reader(threads)
    rows = []
    for place in PLACES:
        ours, peer = module(**inputs_of(5, place)), theirs(5, place)
        harness.require_agreement(f"place {place}", "ONNX Runtime", ours, peer)
        medians = harness.interleaved(
            {
                "ours": lambda at=place: module(**inputs_of(5, at)), "ONNX Runtime": lambda at=place: theirs(5, at),
                "reading": read_memory,
            },
            11, at_least=0.1, threads=threads,
        )  # fmt: skip
        rows.append(
            harness.Row(
                f"token at place {place}", threads, medians["ours"], medians["ONNX Runtime"], "ONNX Runtime", WANTED
            )
        )
        read, rate = bytes_of(model, place), reading.NBYTES / medians["reading"]
        print(
            f"  {threads} threads, place {place}: {1 / medians['ours']:.0f} tokens/s, ONNX Runtime "
            f"{1 / medians['ONNX Runtime']:.0f}; {read / 1e6:.0f} MB a token at {rate / 1e9:.0f} GB/s: at most "
            f"{rate / read:.0f}, of which ours are {read / rate / medians['ours']:.0%}"
        )
    return rows


def main(depth: int = 4) -> None:
    """Measure at one thread and at two."""
    model = decoder(depth=depth, context=_CONTEXT, **_SIZES)
    rows = [row for threads in (1, 2) for row in measured(model, threads)]
    harness.table(f"a decoder of {depth} layers, one token", rows)
    harness.save("decoder", rows, depth=depth, bytes={place: bytes_of(model, place) for place in PLACES})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
