"""Order mode: run the parallel, vectorised and thread loops of `after` forward, backward and shuffled.

It is slow, for small programs. In the shadow mode, a dependence on order is already a conflict with its two accesses;
this mode compares values, for programs that are not run in the shadow mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.errors import Unsupported
from minitvm.tir import nodes as t

from ..case import Case
from ..evidence import Evidence
from ..inputs.special import same_bits
from ..verdict import Verdict

_SHUFFLES = 2


class OrderMode:
    """Checks that independent iterations give the same bits in any order."""

    name = "order"
    compares = False
    rank = 90
    on = None

    def run(self, case: Case, evidence: Evidence) -> Evidence:
        if not isinstance(case.after, t.PrimFunc | t.IRModule):
            raise Unsupported("order mode: tensor expressions have no loops whose order could matter")
        inputs = case.inputs()
        forward = case.run_after(inputs, mode="slow")
        orders: list[dict[str, Any]] = [{"order": "backward"}]
        orders += [{"order": "shuffled", "seed": case.seed + k} for k in range(_SHUFFLES)]
        for options in orders:
            other = case.run_after(inputs, mode="slow", **options)
            for p, a, b in zip(case.parameters, forward, other, strict=True):
                if p.written and not (same := same_bits(a, b)).all():
                    return Evidence(_depends(p.name, same, a, b, options["order"], inputs))
        return Evidence(Verdict(True, self.name))


def _depends(name: str, same: np.ndarray, forward: np.ndarray, other: np.ndarray, order: str, inputs: Any) -> Verdict:
    index = tuple(int(i) for i in np.argwhere(~same)[0])
    a, b = forward[index], other[index]
    message = (
        f"{name}[{', '.join(map(str, index))}] depends on the order of independent iterations (order mode,"
        f" {int((~same).sum())} of {same.size} elements)\n  forward: {a!r}\n  {order + ':':<8} {b!r}"
    )
    return Verdict(False, "order", message, name, index, a, b, inputs)


mode = OrderMode()
