"""`python -m tests.frontends.onnx.mixed_graphs [--first n] [--count n] [--seconds s] [--interpret]`: a sweep."""

from __future__ import annotations

import argparse
import collections
import time
from functools import partial

from tests.frontends.onnx.sizes.workers import judged

from .judging import RIGHT, judge_seed

LIMIT = 240  # seconds for one graph


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--interpret", action="store_true", help="only interpret the imported graphs")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    tally: collections.Counter[str] = collections.Counter()
    judge_one = partial(judge_seed, compiled=not options.interpret)
    for seed, judgement in judged(seeds, judge_one, LIMIT, time.time() + options.seconds):
        tally[judgement.verdict] += 1
        if judgement.verdict != RIGHT:
            print(f"{seed}: {judgement.verdict}: {judgement.text}", flush=True)
        if not sum(tally.values()) % 25:
            print(dict(tally), flush=True)
    print(dict(tally))


main()
