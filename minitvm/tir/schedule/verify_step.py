"""`Schedule(..., verify=True)`: the oracle checks each step as it is made."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import ExecutionError, InputError, InternalError, ScheduleError, Unsupported
from ..nodes import IRModule, PrimFunc

MODES = ("exact", "field", "shadow")


def verify_step(
    before: IRModule, after: IRModule, comparable: Mapping[str, PrimFunc], headline: str, step: int
) -> None:
    """Compare each function that a step changed with its previous version, in the modes `MODES` of
    `minitvm.reference.check`.

    `headline` is the text of the call. If the step changed the signature of a function, `comparable` has a version with
    the old signature. If the results differ, the primitive is wrong, and `InternalError` is raised. If the oracle
    cannot judge the step, the step is refused with a `ScheduleError`.
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
