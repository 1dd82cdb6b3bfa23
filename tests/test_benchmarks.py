"""The benchmarks' harness: what it takes for agreement, and that one that fails does not stop the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from minitvm.records.record import Record, target_key
from minitvm.strategy.candidate import Cost
from minitvm.target import Target
from minitvm.tune.residual import MeasuredCandidate
from minitvm.tune.space import Space

from .tune.programs import product, task

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A module of the benchmarks, which are no part of the package, by name."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("wrong", [1.5, np.nan, np.inf])
def test_results_that_differ_or_are_no_numbers_do_not_agree(load: Callable[[str], ModuleType], wrong: float) -> None:
    require_agreement = load("harness").require_agreement
    expected = np.array([1.0, 2.0], np.float32)
    require_agreement("sum", "NumPy", expected + 1e-4, expected)
    for ours, theirs in ((np.array([1.0, wrong]), expected), (expected, np.array([1.0, wrong]))):
        with pytest.raises(RuntimeError, match="sum: minitvm and NumPy differ"):
            require_agreement("sum", "NumPy", ours, theirs)


def test_a_benchmark_without_agreement_does_not_stop_the_others(
    load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    every, require_agreement = load("__main__"), load("harness").require_agreement
    ran = []
    for module in every.BENCHMARKS:
        monkeypatch.setattr(module, "main", lambda name=module.__name__: ran.append(name))
    differ = np.array([np.nan]), np.ones(1)
    monkeypatch.setattr(every.matmul, "main", lambda: require_agreement("product", "NumPy", *differ))
    assert every.main() == 1
    assert "failed: benchmarks.matmul" in capsys.readouterr().err
    assert ran == [module.__name__ for module in every.BENCHMARKS if module is not every.matmul]


def test_the_benchmark_of_gpus_says_what_is_missing(
    load: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = load("gpu")
    if not gpu.missing():
        pytest.skip("there is a CUDA device")
    gpu.main(["matmul"])
    assert capsys.readouterr().out.startswith("gpu: not measured: ")


def test_the_graphs_of_that_benchmark_run_on_a_simulated_device(
    load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba_cuda")
    monkeypatch.setenv("MINITVM_CUDA_DEVICE", "simulator")
    gpu, rng = load("gpu"), np.random.default_rng(0)
    x, y = (rng.standard_normal((16, 16)).astype(np.float32) for _ in "xy")
    for dtype, most in (("float32", 1e-5), ("float16", 1e-2)):
        run = gpu.ours(gpu.product(16, dtype), {"x": x.astype(dtype), "y": y.astype(dtype)})
        np.testing.assert_allclose(run().numpy(), x @ y, atol=most * 20)
    moved = x - x.mean(-1, keepdims=True)
    powers = np.exp(moved)
    expected = {"softmax": powers / powers.sum(-1, keepdims=True), "layer norm": moved / x.std(-1, keepdims=True)}
    for name, values in expected.items():
        run = gpu.ours(gpu.row_graph(name, 16, 16), {"x": x})
        np.testing.assert_allclose(run().numpy(), values, atol=1e-4)


def test_a_comparison_without_tvm_says_so(load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    compare = load("tune_compare")
    monkeypatch.delenv("MINITVM_TVM_PYTHON", raising=False)
    monkeypatch.setattr(compare.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        SystemExit, match="tune-compare: Apache TVM is not installed here, so there is nothing to compare"
    ):
        compare.main(["matmul"])


def test_a_course_of_tuning_knows_when_it_was_how_good(load: Callable[[str], ModuleType]) -> None:
    compare = load("tune_compare")
    programs = [compare.Program(Path(), when, median) for when, median in ((2.0, 8e-3), (5.0, 3e-3), (9.0, 2e-3))]
    course = compare.Course([], programs)
    found = [course.at(when) for when in (1.0, 2.0, 6.0, 60.0)]
    assert [one and one.median for one in found] == [None, 8e-3, 3e-3, 2e-3]
    wanted = (9e-3, 3e-3, 1e-3, float("inf"))
    assert [course.reached(seconds) for seconds in wanted] == [2.0, 5.0, float("inf"), float("inf")]


def test_a_comparison_that_was_kept_comes_back(load: Callable[[str], ModuleType], tmp_path: Path) -> None:
    compare = load("tune_compare")
    us = compare.Course([(1.0, 2e-3)], [compare.Program(tmp_path / "a", 1.5)])
    compare._kept(tmp_path, us, compare.Course())
    assert compare._again(tmp_path) == (us, compare.Course())


@pytest.mark.parametrize("name", ["matmul", "C5", "D9"])
def test_what_is_compared_is_one_function_for_both(load: Callable[[str], ModuleType], name: str) -> None:
    from minitvm.compat.tvm.bridge import function_from, text_of

    func = load("tune_compare").function_of(name)
    assert function_from(text_of(func)).params[0].shape == func.params[0].shape
    assert func.name == "main" and len(func.params) == 3


def test_the_candidates_of_a_product_are_measured_by_the_clock_of_the_device(
    load: Callable[[str], ModuleType], rng: np.random.Generator
) -> None:
    """One of each rule and way to fetch; the simulator's clock is the host's."""
    pytest.importorskip("numba_cuda")
    gpu = load("gpu")
    x, y = (rng.standard_normal((32, 32), dtype=np.float32) for _ in "xy")
    every = gpu.ways(gpu.product(32, "float32"), "cuda -arch=sm_80", 1)
    assert {one.knobs.get("fetch") for _, one in every} == {"in front", "behind", "async", None}
    func, behind = next(one for one in every if one[1].knobs.get("fetch") == "behind")
    assert gpu.candidate_seconds(func, behind, "cuda", [x, y], x @ y) > 0


def known_candidates(predicted: ModuleType, ratios: dict[str, list[float]]) -> list[Any]:
    """Candidates of some operators in turn, of so many times what was predicted; the first of each is the best."""
    made = []
    for name, some in ratios.items():
        for rows, ratio in enumerate(some, 1):
            knobs = {"rows": rows, "form": "plain" if rows % 2 else "joined"}
            record = Record(task=name, target="t", machine="", name=name, rule="sketch", knobs=knobs, seconds=(ratio,),
                            compute=100.0, baseline=min(some))  # fmt: skip
            point = MeasuredCandidate("sketch", knobs, Cost(100.0), name, "t")
            made.append(predicted.Known(point, ratio, record))
    return made


def test_a_factor_is_what_operators_share(load: Callable[[str], ModuleType]) -> None:
    predicted = load("predicted")
    known = known_candidates(predicted, {"one": [2.0] * 12, "two": [2.2] * 12, "three": [2.1] * 12, "far": [5.0] * 12})
    found = predicted.errors(known, cycle=0.5)  # these records are of another machine
    shares = {name: predicted.share(some) for name, some in found.items()}
    assert shares["formula"] == shares[predicted.CLOCK] == "0% of 20"
    assert shares[predicted.FACTOR] == "75% of 20" and shares[predicted.FIRST] == "100% of 20"
    assert shares[predicted.OWN] == "100% of 20"
    assert {one.near for one in found["formula"]} == {True}


def test_the_clock_of_this_machine_counts_for_its_records(load: Callable[[str], ModuleType]) -> None:
    predicted = load("predicted")
    here = target_key(Target("cpu"))
    known = known_candidates(predicted, {"one": [0.5] * 3, "two": [0.5] * 3})
    known = [replace(one, point=replace(one.point, target=here)) for one in known]
    assert predicted.share(predicted.errors(known, cycle=0.5)[predicted.CLOCK]) == "100% of 4"
    assert predicted.share(predicted.errors(known, cycle=1.0)[predicted.CLOCK]) == "0% of 4"


def test_what_errs_is_found_by_its_knobs(load: Callable[[str], ModuleType]) -> None:
    predicted = load("predicted")
    known = known_candidates(predicted, {"one": [1.0, 1.5] * 6, "two": [2.0, 3.0] * 6})
    found = predicted.by_knobs(known)
    assert predicted.share(found["sketch form=plain"]) == "100% of 12"
    assert found["sketch form=joined"][0].log - found["sketch form=plain"][0].log == pytest.approx(math.log(1.5))


def test_old_records_are_priced_by_the_formulas_of_today(load: Callable[[str], ModuleType]) -> None:
    predicted = load("predicted")
    one = task(product(32, 48, 16))
    (first, *_), key = Space(one).yielded, one.key
    record = Record(task=key, target="t", machine="", name="main", rule=first.rule, knobs=first.knobs, compute=1.0)
    odd = replace(record, knobs={**first.knobs, "no_such_knob": 1})
    others = replace(record, task="another")
    (again,) = predicted.priced_again([record, odd, others], {key: ("a product", one)})
    assert (again.compute, again.memory, again.name) == (first.cost.compute, first.cost.memory, "a product")
