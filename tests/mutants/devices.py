"""Workloads on a pretended CUDA device: what a driver is asked for, and what an artifact holds."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

import minitvm
from minitvm.errors import MinitvmError, TargetError
from minitvm.expr import SizeVar
from minitvm.runtime.cuda import architectures, machine_code
from tests.runtime.fake_cuda import plugged
from tests.runtime.test_devices import alike, network
from tests.runtime.test_states import log, row


def a_network_runs_there() -> None:
    with plugged():
        graph = network(SizeVar("n"))
        module = minitvm.build(graph, target="cuda")
        for n in (1, 2, 2, 2):
            alike(graph, module, x=np.random.default_rng(n).standard_normal((n, 2, 5, 6), dtype=np.float32))


def states_stay_there() -> None:
    with plugged():
        module = minitvm.build(log(), target="cuda")
        assert module(**row(3, 1)).tolist() == [[3, 3]]
        assert module(**row(4, 2)).tolist() == [[7, 7]]
        module.reset()
        assert module(**row(5, 4)).tolist() == [[5, 5]]


def cubins_come_back() -> None:
    with plugged():
        executable = minitvm.lower(network(), target="cuda", stop_at="executable")
        about, data = machine_code.pack(executable, ["sm_75", "sm_90"])
        codes = machine_code.unpack(json.loads(json.dumps(about)), memoryview(data), len(executable.kernels)) or []
        for kernel, code in zip(executable.kernels, codes, strict=True):
            for arch, text in code.code.items():
                assert text.decode() == f"{arch}\n{kernel.entry}\n{kernel.source}"


def architectures_are_told_apart() -> None:
    held = ["sm_75", "sm_80", "sm_86", "sm_90a"]
    best = {
        device: architectures.best_for(device, held)
        for device in ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100")
    }
    assert best == {
        "sm_70": None,
        "sm_75": "sm_75",
        "sm_80": "sm_80",
        "sm_89": "sm_86",
        "sm_90": "sm_90a",
        "sm_100": None,
    }
    assert architectures.compiled_for("sm_75", "sm_90") == "sm_90"
    assert architectures.compiled_for("sm_90a", "sm_90") == "sm_90a"
    for target, device in (("sm_90", "sm_80"), ("sm_90a", "sm_100"), ("sm_89", "sm_86")):
        try:
            architectures.compiled_for(target, device)
        except TargetError:
            continue
        raise AssertionError(f"{target} on {device}")


def checked(number: int) -> None:
    """One of CHECKS; an error of ours is a difference like any other."""
    try:
        CHECKS[number]()
    except (MinitvmError, ValueError) as error:
        raise AssertionError(str(error)) from error


CHECKS: tuple[Callable[[], None], ...] = (
    a_network_runs_there, states_stay_there, cubins_come_back, architectures_are_told_apart,
)  # fmt: skip
