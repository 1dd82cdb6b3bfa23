"""Schedules: programs transformed step by step, each step checked, the whole recorded (see docs and `registry`)."""

from ...errors import ScheduleError
from ..analysis.reducers import Reducer, register_reducer
from . import foreign_calls, primitives
from .handles import BlockRV, ExprRV, LoopRV
from .registry import PRIMITIVES, Failure, Primitive, Requirement, document, holds_inside, primitive, requirement
from .schedule import Call, Schedule
from .trace import Instruction, Trace

__all__ = [
    "PRIMITIVES", "BlockRV", "Call", "ExprRV", "Failure", "Instruction", "LoopRV", "Primitive", "Reducer",
    "Requirement", "Schedule", "ScheduleError", "Trace", "document", "holds_inside", "primitive", "primitives",
    "register_reducer", "requirement",
]  # fmt: skip
