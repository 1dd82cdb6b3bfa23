"""The rules of loop programs and of lowered programs, with one short function each.

`verify(func)` raises a `VerificationError` that names the first violated rule and shows the spot. With MINITVM_VERIFY=1
(`errors.verification_asked`), a schedule checks its function after every step, and lowering checks its input and the
resulting kernels; both use `verify_if_asked`.
"""

from __future__ import annotations

from ...errors import VerificationError, report, verification_asked
from ...expr import Node
from ..nodes import IRModule, PrimFunc
from ..script.printer import script
from .kernel_rules import HOST_RULES, KERNEL_RULES
from .module_rules import MODULE_RULES
from .rule import Rule
from .shared_rules import SHARED_RULES
from .tir_rules import TIR_RULES


def rules(func: PrimFunc, level: str = "tir") -> list[Rule]:
    """Return the rules that apply to a function, in the order in which they are checked."""
    if level == "tir":
        return TIR_RULES
    own = HOST_RULES if func.attrs.get("host") else KERNEL_RULES
    return [*SHARED_RULES, *own]


def verify(program: PrimFunc | IRModule, level: str = "tir", context: int | None = 6) -> None:
    """Raise `VerificationError` for the first rule that a function, or any function of a module, violates.

    `level` is "tir" (a loop program) or "kernel" (after lowering). `context` is the number of lines shown around the
    spot; None shows the whole program.
    """
    functions = [program] if isinstance(program, PrimFunc) else list(program.functions.values())
    for func in functions:
        for entry in rules(func, level):
            for node, fault in entry.check(func):
                raise _error(func, entry.name, entry.meaning, node, fault, context)
    if isinstance(program, IRModule) and level == "kernel":
        for name, (meaning, check) in MODULE_RULES.items():
            for node, fault in check(program):
                raise _error(program, name, meaning, node, fault, context)


def verify_if_asked(name: str, program: PrimFunc | IRModule, level: str = "tir") -> None:
    """Call `verify` after the pass or primitive `name` if MINITVM_VERIFY=1. Errors say which step broke the program."""
    if not verification_asked():
        return
    try:
        verify(program, level)
    except VerificationError as error:
        raise VerificationError(f"after {name}: {error}") from None


def _error(
    program: PrimFunc | IRModule, name: str, meaning: str, node: Node, fault: str, context: int | None
) -> VerificationError:
    what = program.name if isinstance(program, PrimFunc) else "the module"
    text = script(program, mark={node: fault}, context=context)
    return VerificationError(report(f"{what}: {name}", program=text, wanted=meaning, found=fault))


__all__ = ["MODULE_RULES", "SHARED_RULES", "TIR_RULES", "Rule", "rules", "verify", "verify_if_asked"]
