"""Run all node cases of ONNX's conformance suite, classify the results, and print a table of the coverage.

    python -m minitvm.frontends.onnx.conformance docs/coverage.md

A case may pass, be refused (by `UnsupportedOperator`, or by a run that names the unsupported feature), give a wrong
answer, or fail in another way. The last two are bugs.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, UnsupportedOperator
from ...expr.dtypes import is_floating, limits

# Cases whose answers are farther from the exact ones than the suite allows: a float32 FFT made them.
INEXACT = {"test_dft_inverse": 1e-5, "test_dft_inverse_opset19": 1e-5}

# Results of 16 bits may differ by this many units, because intermediate rounding is not specified.
ROUNDINGS = 2

PASS, REFUSED, WRONG, FAILED = "pass", "refused", "wrong", "failed"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case. `detail` is the first line of the refusal, the difference or the error.

    `computed` is False if the answer follows from shapes and constants alone, so that no kernel ran.
    """

    name: str
    operator: str
    outcome: str
    detail: str = ""
    computed: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}" + (f" ({self.detail})" if self.detail else "")


def cases(plain_only: bool = True) -> list[Any]:
    """Return ONNX's node cases, sorted by name. `plain_only` leaves out those with inputs or outputs that are not
    numeric tensors.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        collected = sorted(collect_testcases(None), key=lambda case: case.name)
    return [case for case in collected if is_plain(case)] if plain_only else collected


def is_plain(case: Any) -> bool:
    """Return whether all inputs and outputs are tensors of bool, 8 to 64 bit integers, or 16 to 64 bit floats."""
    from .dtypes import tensor_type

    try:
        for info in (*case.model.graph.input, *case.model.graph.output):
            tensor_type(info, info.name)
    except UnsupportedOperator:
        return False
    return True


def operator_of(case: Any) -> str:
    """Return the operator that a case tests. All cases of expanded functions are listed as "(function bodies)"."""
    name = case.name.removeprefix("test_")
    if "_expanded" in name:
        return "(function bodies)"
    node = case.model.graph.node[-1]
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


def run_case(case: Any, prepare: Callable[[Any], Any]) -> Result:
    """Run one case with `prepare(model)`, whose result has `run(inputs)`."""
    operator = operator_of(case)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = prepare(case.model)
            for inputs, expected in case.data_sets:
                outputs = prepared.run([_array(a) for a in inputs])
                allowed = max(case.atol, INEXACT.get(case.name, 0.0))
                difference = _difference(outputs, [_array(a) for a in expected], case.rtol, allowed)
                if difference:
                    return Result(case.name, operator, WRONG, difference)
    except UnsupportedOperator as error:
        return Result(case.name, operator, REFUSED, _first_line(error))
    except InputError as error:  # a run may refuse what a model leaves to it, such as dropout in training
        outcome = REFUSED if "is not supported" in str(error) else FAILED
        return Result(case.name, operator, outcome, _first_line(error))
    except Exception as error:  # whatever it is, it is a failure to be told
        return Result(case.name, operator, FAILED, f"{type(error).__name__}: {_first_line(error)}")
    return Result(case.name, operator, PASS, computed=getattr(prepared, "computes", True))


def _array(value: Any) -> Any:
    """Return a case's array, which may be given as a TensorProto."""
    import onnx.numpy_helper

    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]


def _difference(actual: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float) -> str:
    if len(actual) != len(expected):
        return f"{len(expected)} outputs wanted, {len(actual)} found"
    for number, (a, b) in enumerate(zip(actual, expected, strict=False)):
        b = np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {number}: {b.dtype}{list(b.shape)} wanted, {a.dtype}{list(a.shape)} found"
        if is_floating(b.dtype) and b.dtype.itemsize == 2:  # the suite's 1e-3 is one step of float16, or less than one
            rtol = max(rtol, ROUNDINGS * float(limits(b.dtype).eps))
            a, b = a.astype(np.float64), b.astype(np.float64)
        if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
            with np.errstate(all="ignore"):
                worst = np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64)))
            return f"output {number}: differs by up to {worst:.3g}"
    return ""


def table(results: Iterable[Result], total: int) -> str:
    """Return the coverage table as Markdown."""
    rows: dict[str, list[Result]] = {}
    for result in results:
        rows.setdefault(result.operator, []).append(result)
    counts = Counter(r.outcome for group in rows.values() for r in group)
    plain = sum(counts.values())
    folded = sum(not r.computed for group in rows.values() for r in group)
    lines = [
        "# ONNX operators",
        "",
        "`python -m minitvm.frontends.onnx.conformance docs/coverage.md` writes this page; do not edit it.",
        "",
        f"The package `onnx` has {total} test cases for operators (`onnx.backend.test`). {plain} of them use only",
        "plain numeric tensors, and this page counts only these:",
        "",
        f"- {counts[PASS]} pass when compiled;",
        f"- {counts[REFUSED]} are refused with `UnsupportedOperator`;",
        f"- {counts[WRONG]} give a wrong result;",
        f"- {counts[FAILED]} fail in another way.",
        "",
        f"In {folded} of the passing cases, the importer already computes the result, because it depends only on",
        f"shapes and constants. {len(INEXACT)} cases contain float32 FFTs, so their results may differ by 1e-5.",
        "",
        "| operator | cases | pass | refused | reason |",
        "|---|---:|---:|---:|---|",
    ]
    for operator in sorted(rows):
        group = rows[operator]
        passed = sum(r.outcome == PASS for r in group)
        refused = [r for r in group if r.outcome == REFUSED]
        reasons = Counter(_reason(r.detail) for r in refused)
        why = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))
        bad = [r for r in group if r.outcome in (WRONG, FAILED)]
        why = "; ".join([*(f"**{r}**" for r in bad), *([why] if why else [])])
        lines.append(f"| {operator} | {len(group)} | {passed} | {len(refused)} | {why} |")
    return "\n".join(lines) + "\n"


def _reason(detail: str) -> str:
    """Return a refusal without the name of the node, so that equal refusals are counted together."""
    head, paren, rest = detail.partition(" (node ")
    text = head + rest.partition(")")[2] if paren else detail
    return text.removeprefix("operator ").replace("|", "/")[:100]


def run_all(
    prepare: Callable[[Any], Any], selected: Sequence[Any], progress: Callable[[int, int], None] | None = None
) -> list[Result]:
    """Run all of these cases, in order."""
    results = []
    for count, case in enumerate(selected):
        results.append(run_case(case, prepare))
        if progress:
            progress(count + 1, len(selected))
    return results


def main(arguments: Sequence[str]) -> int:
    """Write the table to a file. Return 1 if any case is wrong or fails."""
    from .backend import OnnxBackend

    every = cases(plain_only=False)

    def progress(done: int, total: int) -> None:
        if done % 20 == 0 or done == total:
            print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)

    results = run_all(OnnxBackend.prepare, [case for case in every if is_plain(case)], progress)
    print(file=sys.stderr)
    Path(arguments[0]).write_text(table(results, len(every)))
    bad = [r for r in results if r.outcome in (WRONG, FAILED)]
    for result in bad:
        print(result)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
