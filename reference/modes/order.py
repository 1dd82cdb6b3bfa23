"""Order mode: parallel, vectorised and thread loops of `after` run backward and shuffled. Slow: for small programs."""

from __future__ import annotations

from typing import Any

from ..verdict import Verdict
from .case import Case


class OrderMode:
    """Independent iterations give the same result in any order."""

    name = "order"
    compares = False
    rank = 90

    def run(self, case: Case) -> Verdict:
        inputs = case.inputs()
        wanted = case.run_after(inputs)
        orders: list[dict[str, Any]] = [{"order": "backward"}, {"order": "shuffled", "seed": case.seed}]
        for options in orders:
            verdict = case.compare(self.name, inputs, wanted, case.run_after(inputs, mode="slow", **options))
            if not verdict:
                return verdict
        return Verdict(True, self.name)


mode = OrderMode()
