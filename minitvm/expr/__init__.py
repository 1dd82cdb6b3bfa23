"""Scalar expressions, dtypes, and the generic walks over every level's nodes: the foundation of te and tir."""

from .dtypes import SCALARS, DType, dtype_of_value, promote
from .intrin import INTRINSICS, call
from .nodes import (
    EQ, GE, GT, LE, LT, NE, OPAQUE, REDUCE, SPATIAL, Add, And, BinaryOp, Broadcast, Call, Cast, CommReducer, CompareOp,
    Div, Expr, FloatImm, FloorDiv, FloorMod, IntImm, IterVar, Let, LogicalOp, Max, Min, Mod, Mul, Node, Not, Or, Ramp,
    Range, Reduce, Select, Shuffle, SizeVar, StringImm, Sub, Var, as_expr, binary, const, match, node,
)  # fmt: skip
from .printer import ExprPrinter, format_expr
from .structural import first_difference, structural_equal
from .visitor import children, free_vars, map_children, replace, rewrite, substitute, walk

__all__ = [
    "EQ", "GE", "GT", "INTRINSICS", "LE", "LT", "NE", "OPAQUE", "REDUCE", "SCALARS", "SPATIAL", "Add", "And",
    "BinaryOp", "Broadcast", "Call", "Cast", "CommReducer", "CompareOp", "DType", "Div", "Expr", "ExprPrinter",
    "FloatImm", "FloorDiv", "FloorMod", "IntImm", "IterVar", "Let", "LogicalOp", "Max", "Min", "Mod", "Mul", "Node",
    "Not", "Or", "Ramp", "Range", "Reduce", "Select", "Shuffle", "SizeVar", "StringImm", "Sub", "Var", "as_expr",
    "binary", "call", "children", "const", "dtype_of_value", "first_difference", "format_expr", "free_vars",
    "map_children", "match", "node", "promote", "replace", "rewrite", "structural_equal", "substitute", "walk",
]  # fmt: skip
