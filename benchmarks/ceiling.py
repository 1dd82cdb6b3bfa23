"""How far networks are from what this machine can do, and which ratio to a peer is left to reach there.

    python -m benchmarks.ceiling [resnet18 ...]

The profile's roofline bounds each operator: its operations at the peak of multiply-adds, its bytes at the rate of the
level that they come from. `share` is the sum of these bounds over the sum of the operators' times; an operator that is
faster than its bound (bytes came from a nearer level) counts with its time. A program of the same algorithms with every
operator on its roof would be `ratio / share` times as fast as the peer: the ceiling. Another algorithm (fewer
multiplications) has another one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from minitvm.target import Target
from minitvm.tools import models, profile
from minitvm.tools.profile.peak_rates import measure

from . import harness, networks


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A network beside the faster peer: the ratio, and which share of the roofline our program reaches."""

    row: harness.Row
    share: float

    @property
    def ratio(self) -> float:
        """The ratio of a program on the roofline."""
        return self.row.ratio / self.share


def share_of_roofline(found: profile.Profile) -> float:
    """The time of all operators on the roofline, over the time that they take.

    The profile's roofline is that of the machine's best moment. What others do on it slows the peak and the program
    alike, so the peak of this moment is measured as well.
    """
    now = measure(Target("cpu").description, found.threads)
    pace = min(1.0, now.peak / found.machine.peak)
    bounds = sum(min(row.bound_seconds / pace, row.seconds) for row in found.rows)
    return bounds / sum(row.seconds for row in found.rows)


def measured(name: str, threads: int) -> Ceiling:
    """One network beside the faster peer, and on the roofline."""
    module, inputs, medians = networks.timed(name, threads)
    ours = medians.pop("ours")
    who = min(medians, key=lambda one: medians[one])
    row = harness.Row(name, threads, ours, medians[who], who, 0.0)
    return Ceiling(row, share_of_roofline(module.profile(**inputs)))


def main(names: list[str] | None = None) -> None:
    """Measure the networks given, or the eleven that everybody measures, at one thread and at two."""
    found = [measured(name, threads) for threads in (1, 2) for name in names or models.NETWORKS]
    print(f"\n  {'':<28}{'threads':>8}{'ratio':>8}{'share':>8}{'ceiling':>9}")
    for one in found:
        row = one.row
        print(f"  {row.name:<28}{row.threads:>8}{row.ratio:>8.2f}{one.share:>8.0%}{one.ratio:>9.2f}  {row.peer_name}")
    for threads in (1, 2):
        chosen = [one for one in found if one.row.threads == threads]
        ratio, ceiling = (
            harness.geometric_mean(of) for of in zip(*((c.row.ratio, c.ratio) for c in chosen), strict=True)
        )
        print(f"  geometric means, {threads} threads: ratio {ratio:.2f}, ceiling {ceiling:.2f}")
    harness.save("ceiling", [one.row for one in found], shares=[one.share for one in found])


if __name__ == "__main__":
    main(sys.argv[1:])
