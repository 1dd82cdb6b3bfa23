"""Convert operators without a converter, using the ATen signatures in their declarations (`topi.spelling.Aten`)."""

from __future__ import annotations

from typing import Any

from ....topi.registry import Operator
from ....topi.spelling import Aten
from ...common.operand import Operand
from ..context import TorchNodeContext
from . import reduction


def convert(operator: Operator, n: TorchNodeContext) -> Any:
    """Apply the operator to the first arguments of a node, converted to one dtype as PyTorch does."""
    assert operator.aten is not None
    if operator.is_reduction:
        return reduction.reduced(n, operator.name)
    aten, name = operator.aten, operator.name
    arguments = n.parameters[: len(operator.input_names)]
    if aten.operands == "result" and n.dtype.is_bool and (aten.of_bools or len(arguments) > 1):
        name = aten.of_bools or n.refuse_dtype("bool")
    attrs = {ours: n.attr(theirs) if isinstance(theirs, str) else theirs for ours, theirs in aten.attrs.items()}
    return n.op(name, *_operands(n, arguments, aten), **attrs)


def _operands(n: TorchNodeContext, arguments: list[str], aten: Aten) -> list[Operand]:
    match aten.operands:
        case "result":
            return [n.of_dtype(n.attr(name), n.dtype) for name in arguments]
        case "bool":
            return [n.cast(n[name], "bool") for name in arguments]
        case "common":  # of truth values, false is less than true
            return [n.cast(x, "int8") if x.dtype.is_bool else x for x in n.promoted(*arguments)]
        case "own":
            return [n[name] for name in arguments]
