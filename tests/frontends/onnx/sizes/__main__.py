"""`python -m tests.frontends.onnx.sizes [--only OP ...] [--seconds s] [--sample n]`: a sweep by hand."""

from __future__ import annotations

import argparse
import collections
import pickle
import time
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from .changes import Model, changes, models_of_onnx, of_proto, with_known_numbers
from .judging import accepted, judge
from .seeds import contributed
from .verdicts import BAD, VALID_REFUSED
from .workers import judged


def seeds(path: Path | None) -> list[Model]:
    """Valid models of one operator each."""
    if path is None:
        return [*models_of_onnx(), *contributed()]
    return [of_proto(onnx.ModelProto.FromString(p), arrays) for _, _, p, arrays, _ in pickle.loads(path.read_bytes())]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=Path, help="a pickled list of models, instead of those of ONNX's tests")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--sample", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--interpret", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--unchanged", action="store_true")
    options = parser.parse_args()
    draw = np.random.default_rng(options.seed)
    models: list[Model] = []
    for base in map(with_known_numbers, seeds(options.seeds)):
        if options.only and base.op not in options.only:
            continue
        if not accepted(base):
            if options.unchanged:
                print("not accepted:", base)
            continue
        every = [base] if options.unchanged else list(changes(base))
        picked = draw.permutation(len(every))[: options.sample]
        models += [every[k] for k in sorted(picked)]
    models = [models[k] for k in draw.permutation(len(models))]
    print(len(models), "models")
    tally: collections.Counter[str] = collections.Counter()
    out = options.out.open("a") if options.out else None
    judge_one = partial(judge, interpret=options.interpret)
    for model, judgement in judged(models, judge_one, until=time.time() + options.seconds):
        tally[judgement.verdict] += 1
        if judgement.verdict in (*BAD, VALID_REFUSED):
            line = f"{judgement.verdict.upper()}: {model}\n    {judgement.text}"
            print(line[:900], file=out, flush=True)
    print(dict(tally))


main()
