"""Schedules transform programs step by step. Each step is one call of a primitive (`registry`), which is checked and
recorded in the trace.
"""

import importlib
import sys
from typing import Any

from ...absent import absent
from ...errors import ScheduleError
from ..analysis.reducers import Reducer, register_reducer
from . import foreign_calls, primitives, trace
from .block_scope import BlockScope, Dependency, DepKind, StmtSRef
from .handles import BlockRV, ExprRV, LoopRV
from .registry import PRIMITIVES, Failure, Primitive, Requirement, document, holds_inside, primitive, requirement
from .schedule import PrimitiveCall, Schedule
from .state import ScheduleDebugMask, ScheduleState
from .trace import Instruction, InstructionKind, Trace

__all__ = [
    "PRIMITIVES",
    "BlockRV",
    "BlockScope",
    "DepKind",
    "Dependency",
    "ExprRV",
    "Failure",
    "Instruction",
    "InstructionKind",
    "LoopRV",
    "Primitive",
    "PrimitiveCall",
    "Reducer",
    "Requirement",
    "Schedule",
    "ScheduleDebugMask",
    "ScheduleError",
    "ScheduleState",
    "StmtSRef",
    "Trace",
    "document",
    "holds_inside",
    "primitive",
    "primitives",
    "register_reducer",
    "requirement",
]  # fmt: skip

sys.modules[f"{__name__}.instruction"] = trace  # TVM has the class of instructions in a module of its own
_ON_FIRST_USE = ("analysis", "testing", "transform")


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "instruction":
        return trace
    raise absent(__name__, name, [*globals(), *_ON_FIRST_USE])
