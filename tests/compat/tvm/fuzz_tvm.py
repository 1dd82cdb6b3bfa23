"""`make fuzz-tvm`: random programs and random steps through minitvm and a real TVM 0.27, for FUZZ_MINUTES.

Every step is taken in both, and what either makes of the program is run by our interpreter beside the program before.
What differs is shrunk by Hypothesis to the smallest program and fewest steps, and printed as a file that runs under
TVM. At the end stand the calls that only one of the two takes, by primitive and reason. A fault of minitvm's ends with
status 1; TVM's are findings, not failures.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from minitvm.compat.tvm.bridge import RealTVM, ScheduleStep
from minitvm.tir.nodes import PrimFunc

from .tvm_calls import CALLS, NothingToCall, View
from .tvm_known import KNOWN
from .tvm_pair import (
    AGREE,
    BOTH_REFUSE,
    FINDINGS,
    OUR_FAULTS,
    OVER_STRICT,
    TVM_REFUSES,
    UNDECIDED,
    Outcome,
    Pair,
    runs,
    script_for_tvm,
)
from .tvm_programs import programs_for

Signature = tuple[str, str, str]
_SETTINGS: dict[str, Any] = {
    "database": None, "deadline": None, "suppress_health_check": list(HealthCheck), "verbosity": Verbosity.quiet,
    "phases": (Phase.generate, Phase.shrink), "report_multiple_bugs": False,
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """An outcome, and the program and steps that lead to it."""

    outcome: Outcome
    func: PrimFunc
    steps: tuple[ScheduleStep, ...]

    @property
    def size(self) -> int:
        """Characters: the smaller of two findings of one signature is kept."""
        return len(self.text)

    @property
    def text(self) -> str:
        """A file that runs under TVM."""
        return script_for_tvm(self.func, self.steps)


@dataclass
class Journal:
    """What has been seen so far."""

    known: Collection[Signature] = ()  # findings that need no telling
    counts: Counter[Signature] = field(default_factory=Counter)
    findings: dict[Signature, Finding] = field(default_factory=dict)
    examples: dict[Signature, Finding] = field(default_factory=dict)  # of what only one of the two takes
    same_text: int = 0  # of both accept

    def knows(self, signature: Signature) -> bool:
        """Whether such a finding has been told."""
        return signature in self.findings or signature in self.known

    def add(self, outcome: Outcome, pair: Pair) -> None:
        """Count an outcome."""
        self.counts[outcome.signature] += 1
        self.same_text += outcome.same_text
        if outcome.kind in (OVER_STRICT, TVM_REFUSES, UNDECIDED):
            found = Finding(outcome, pair.func, tuple(pair.steps))
            known = self.examples.get(outcome.signature)
            if known is None or found.size < known.size:
                self.examples[outcome.signature] = found


class _Found(Exception):
    """An example is a finding that is new."""


def hunt(real: RealTVM, journal: Journal, names: Sequence[str], examples: int, number: int) -> Finding | None:
    """Try `examples` random programs; the first finding that the journal does not know, shrunk."""
    target: list[Signature] = []
    smallest: list[Finding] = []

    @seed(number)
    @settings(max_examples=examples, **_SETTINGS)
    @given(st.data())
    def example(data: Any) -> None:
        found = _try(data, real, journal if not target else Journal(), names)
        if found is None or journal.knows(found.outcome.signature):
            return
        if not target:
            target.append(found.outcome.signature)
        # Only what began the shrinking may go on with it: another fault on the way is found another time.
        if found.outcome.signature == target[0]:
            smallest[:] = [found]
            raise _Found

    with contextlib.suppress(_Found, Flaky):
        example()
    return smallest[0] if smallest else None


def _try(data: Any, real: RealTVM, journal: Journal, names: Sequence[str]) -> Finding | None:
    last = data.draw(st.sampled_from(names))
    func = data.draw(programs_for(last))
    if not runs(func):
        return None
    pair = Pair(func, real)
    # What comes before changes what the last step meets. The number first and then each step as one draw: Hypothesis
    # lowers the one and leaves out one of the others.
    before = data.draw(st.integers(0, 3))
    for name in [names] * before + [[last]]:
        outcome = data.draw(_steps(pair, name))
        if outcome is None:
            continue
        journal.add(outcome, pair)
        if outcome.kind in FINDINGS:
            return Finding(outcome, func, tuple(pair.steps))
        if outcome.kind not in (AGREE, BOTH_REFUSE):
            return None
    return None


@st.composite
def _steps(draw: Any, pair: Pair, names: Sequence[str]) -> Outcome | None:
    """One step, taken in both; None where the program has nothing for the primitive."""

    def choose(options: Any) -> Any:
        return draw(st.sampled_from(options))

    name = choose(names)
    try:
        arguments = CALLS[name](View(pair.ours, choose))
    except NothingToCall:
        return None
    return pair.step(name, arguments)


def fuzz(real: RealTVM, seconds: float, names: Sequence[str] = tuple(CALLS), number: int | None = None,
         until: Any = None, tell: Any = print, known: Collection[Signature] = ()) -> Journal:  # fmt: skip
    """Hunt until the time is over, or until `until(finding)` holds of one; what is `known` is only counted."""
    journal = Journal(known)
    generator = random.Random(secrets.randbelow(2**32) if number is None else number)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        order = list(names)
        generator.shuffle(order)  # Hypothesis prefers what stands first
        found = hunt(real, journal, order, 100, generator.randrange(2**32))
        if found is None:
            continue
        journal.findings[found.outcome.signature] = found
        tell(described(found, real.version))
        if until is not None and until(found):
            break
    return journal


def described(finding: Finding, version: str) -> str:
    """A finding for a person: what it is, and a file that shows it."""
    outcome = finding.outcome
    detail = "\n".join("    " + line for line in outcome.detail.strip().splitlines()[:30])
    headline = f"==== {outcome.kind} (TVM {version}): {outcome.primitive}: {outcome.key}"
    return f"{headline}\n{detail}\n\n{finding.text}\n"


def summary(journal: Journal) -> str:
    """The counts, and the smallest example of each call that only one of the two takes."""
    lines = ["", "steps by outcome"]
    kinds: Counter[str] = Counter()
    for (kind, _, _), count in journal.counts.items():
        kinds[kind] += count
    lines += [f"  {count:7} {kind}" for kind, count in kinds.most_common()]
    lines.append(f"  {journal.same_text:7} of those that both accept give the same program, up to names")
    for kind in (OVER_STRICT, TVM_REFUSES, UNDECIDED):
        rows = sorted((signature, count) for signature, count in journal.counts.items() if signature[0] == kind)
        if rows:
            lines += ["", f"{kind}: primitive, reason, times"]
            lines += [f"  {primitive:24} {key}  {count}" for (_, primitive, key), count in rows]
    again = sorted(signature for signature in journal.counts if signature in journal.known)
    if again:
        lines += ["", "known findings, seen again (--all shrinks them too): primitive, what, times"]
        lines += [f"  {s[1]:24} {s[2]}: {KNOWN.get(s, '')}  {journal.counts[s]}" for s in again]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Fuzz all primitives, or those that are named. Returns an exit status."""
    try:
        minutes = float(os.environ.get("FUZZ_MINUTES", "10"))
    except ValueError:
        print(f"FUZZ_MINUTES must be a number, and is {os.environ['FUZZ_MINUTES']!r}", file=sys.stderr)
        return 2
    show_examples = "--examples" in arguments
    known = () if "--all" in arguments else KNOWN
    names = [a for a in arguments if not a.startswith("--")] or list(CALLS)
    unknown = [name for name in names if name not in CALLS]
    if unknown:
        print(f"no calls are known for {', '.join(unknown)}; known: {', '.join(CALLS)}", file=sys.stderr)
        return 2
    with RealTVM(timeout=30) as real:
        print(f"TVM {real.version}, {len(names)} primitives, {minutes:g} minutes", flush=True)
        journal = fuzz(real, 60 * minutes, names, tell=lambda text: print(text, flush=True), known=known)
        if show_examples:
            for finding in journal.examples.values():
                print(described(finding, real.version))
    print(summary(journal))
    ours = [s for s in journal.findings if s[0] in OUR_FAULTS]
    print(f"\n{len(journal.findings)} findings, {len(ours)} of them faults of minitvm")
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
