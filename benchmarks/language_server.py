"""Conversations at once through `minitvm serve`, compared with the same ones in turn: tokens per second in all.

    python -m benchmarks.language_server MODEL.gguf [THREADS ...]

The server is a process of its own, and the client is OpenAI's. Half of the conversations are greedy, and the others are
drawn with a seed. Each of them must have the same answer in both cases. Rounds of both kinds take turns; the ratio is
that of the medians.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

CONVERSATIONS = 8
TOKENS = 64  # of an answer, at most
ROUNDS = 3
TOPICS = ("a compiler", "the sea", "a bicycle", "bread", "the moon", "a piano", "a forest", "chess")


@contextmanager
def server(path: str, threads: int) -> Iterator[str]:
    """Run `minitvm serve`, and yield its address."""
    command = [sys.executable, "-m", "minitvm", "serve", path, "--port", "0", "--threads", str(threads)]
    command += ["--slots", str(CONVERSATIONS), "--context", "512"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield next(line for line in process.stderr if line.startswith("http://")).partition(" ")[0]
        finally:
            process.send_signal(signal.SIGINT)


def ask(client: Any, model: str, number: int) -> tuple[str, int]:
    """Have conversation `number` answered; return the answer and its number of tokens."""
    messages = [{"role": "user", "content": f"Tell me a long story about {TOPICS[number]}."}]
    reply = client.chat.completions.create(
        model=model, messages=messages, max_tokens=TOKENS, temperature=0.8 if number % 2 else 0.0, seed=number
    )
    return reply.choices[0].message.content, reply.usage.completion_tokens


def main(path: str, threads: list[int]) -> None:
    print(f"{'threads':>8}{'in turn':>10}{'at once':>10}   ratio   (tokens per second, {CONVERSATIONS} conversations)")
    for count in threads:
        with server(path, count) as address:
            in_turn, at_once = rates(address)
        print(f"{count:>8}{in_turn:>10.0f}{at_once:>10.0f}{at_once / in_turn:>8.2f}", flush=True)


def rates(address: str) -> list[float]:
    """Return the tokens per second in turn, and at once. Exits if an answer is not the same in all rounds."""
    from openai import OpenAI

    seconds: tuple[list[float], list[float]] = [], []
    with OpenAI(base_url=address, api_key="none") as client, ThreadPoolExecutor(CONVERSATIONS) as pool:
        call = partial(ask, client, client.models.list().data[0].id)
        expected = [call(number) for number in range(CONVERSATIONS)]  # warms up, too
        for _ in range(ROUNDS):
            for times, run in zip(seconds, (map, pool.map), strict=True):
                start = time.perf_counter()
                answers = list(run(call, range(CONVERSATIONS)))
                times.append(time.perf_counter() - start)
                if answers != expected:
                    raise SystemExit("an answer is not that of the first round")
    return [sum(tokens for _, tokens in expected) / statistics.median(times) for times in seconds]


if __name__ == "__main__":
    main(sys.argv[1], [int(word) for word in sys.argv[2:]] or [1, 2])
