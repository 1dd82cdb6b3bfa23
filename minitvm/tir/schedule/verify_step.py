"""`Schedule(..., verify=True)`: the oracle checks each step when it is taken."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import ExecutionError, InputError, InternalError, ScheduleError, Unsupported
from ..nodes import IRModule, PrimFunc

MODES = ("exact", "field", "shadow")


def verify_step(
    before: IRModule, after: IRModule, comparable: Mapping[str, PrimFunc], headline: str, step: int
) -> None:
    """Run each function that a step changed before and after it, in the modes `MODES` of `minitvm.reference.check`.

    `headline` is the call as text. For functions whose signature the step changed, `comparable` has a version with the
    old signature. If the results differ, the primitive is wrong: `InternalError` is raised. If the oracle cannot judge
    the step, the step is refused with a `ScheduleError`.
    """
    from ...reference import check

    for name, func in before.items():
        if after[name] is func:
            continue
        try:
            verdict = check(func, comparable.get(name, after[name]), modes=MODES)
        except (ExecutionError, Unsupported) as reason:
            raise ScheduleError(f"{headline}: verify=True cannot judge step {step} of the trace: {reason}") from None
        except InputError as reason:
            fault = f"step {step} of the trace changes the parameters of {name}: {reason}"
            raise InternalError(f"{headline}: {fault}") from None
        if not verdict:
            fault = str(verdict).replace("\n", "\n  ")
            raise InternalError(f"{headline}: step {step} of the trace changes what {name} computes\n  {fault}")
