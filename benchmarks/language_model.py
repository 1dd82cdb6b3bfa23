"""A language model beside llama.cpp, on one GGUF file: tokens per second.

    python -m benchmarks.language_model MODEL.gguf [THREADS ...]
    python -m benchmarks.language_model MODEL.gguf [THREADS ...] --random Q4_0

With `--random`, the file is first written: a model with the sizes of TinyLlama-1.1B and random weights in this format.

The peer is the package llama-cpp-python, which pip builds from source in some minutes. Both run in one process, in
blocks that take turns, with pauses between them; the medians are compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import random_language_model
from minitvm.tools.language import LanguageModel

PROMPT = 256  # tokens
BLOCKS, STEPS = 6, 12
PAUSE = 0.2  # seconds


def main(path: str, threads: list[int]) -> None:
    from llama_cpp import Llama

    print(f"{'threads':>8}{'':>14}{'minitvm':>12}{'llama.cpp':>12}   ratio   (tokens per second)")
    for count in threads:
        ours = LanguageModel(path, threads=count)
        theirs = Llama(path, n_ctx=ours.context, n_threads=count, n_threads_batch=count, n_batch=512, verbose=False)
        compare(ours, theirs, count)


def compare(ours: LanguageModel, theirs: Any, threads: int) -> None:
    """Read a prompt of random tokens, and then go on from a short one."""
    text = [int(token) for token in np.random.default_rng(0).integers(100, ours.vocabulary, PROMPT)]
    seconds = medians(lambda: ours_reads(ours, text), lambda: theirs_reads(theirs, text), 1)
    show(threads, f"prompt of {PROMPT}", [PROMPT / duration for duration in seconds])
    ours_reads(ours, text[:16])
    theirs_reads(theirs, text[:16])
    seconds = medians(lambda: ours_goes_on(ours), lambda: theirs.eval(text[:1]), STEPS)
    show(threads, "one token", [1 / duration for duration in seconds])


def ours_reads(model: LanguageModel, text: list[int]) -> None:
    model.tokens = []  # the caches hold nothing of use
    model.logits(text)


def ours_goes_on(model: LanguageModel) -> None:
    model.logits([*model.tokens, model.tokens[0]])


def theirs_reads(model: Any, text: list[int]) -> None:
    model.reset()
    model.eval(text)


def medians(ours: Callable[[], None], theirs: Callable[[], None], steps: int) -> list[float]:
    """Return the median seconds of each, from blocks of so many calls that take turns."""
    times: list[list[float]] = [[], []]
    for block in range(BLOCKS + 1):
        for number, call in enumerate((ours, theirs)):
            for _ in range(steps):
                start = time.perf_counter()
                call()
                if block:  # the first block warms up
                    times[number].append(time.perf_counter() - start)
            time.sleep(PAUSE)
    return [float(np.median(durations)) for durations in times]


def show(threads: int, what: str, rates: list[float]) -> None:
    print(f"{threads:>8}  {what:<14}{rates[0]:>10.0f}{rates[1]:>12.0f}{rates[0] / rates[1]:>8.2f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a language model beside llama.cpp.")
    parser.add_argument("path", help="a GGUF file")
    parser.add_argument("threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--random", choices=random_language_model.FORMATS, help="write a random model in this format")
    parser.add_argument("--layers", type=int, default=random_language_model.LAYERS, help="of the random model")
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    if options.random:
        random_language_model.write(options.path, options.random, options.layers)
    main(options.path, options.threads)
