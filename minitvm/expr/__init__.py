"""Scalar expressions, dtypes, and the walks over the nodes of every level: the foundation of te and tir."""

from .dtypes import SCALARS, DType, dtype_of_value, promote
from .intrin import INTRINSICS, call, factors_of_words
from .largest import divided, multiple
from .node import Node, node
from .nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    OPAQUE,
    REDUCE,
    SPATIAL,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CommReducer,
    CompareOp,
    DataVar,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    LogicalOp,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
    as_expr,
    binary,
    const,
    match,
)
from .printer import ExprPrinter, format_expr
from .structural import first_difference, structural_equal
from .visitor import (
    children,
    contains,
    find,
    free_vars,
    map_children,
    replace,
    rewrite,
    rewrite_statements,
    substitute,
    walk,
)

__all__ = [
    "EQ", "GE", "GT", "INTRINSICS", "LE", "LT", "NE", "OPAQUE", "REDUCE", "SCALARS", "SPATIAL", "Add", "And",
    "BinaryOp", "Broadcast", "Call", "Cast", "CommReducer", "CompareOp", "DType", "DataVar", "Div", "Expr",
    "ExprPrinter", "FloatImm", "FloorDiv", "FloorMod", "IntImm", "IterVar", "Let", "LogicalOp", "Max", "Min", "Mod",
    "Mul", "Node", "Not", "Or", "Ramp", "Range", "Reduce", "Select", "Shuffle", "SizeVar", "StringImm", "Sub", "Var",
    "as_expr", "binary", "call", "children", "const", "contains", "divided", "dtype_of_value", "factors_of_words",
    "find", "first_difference", "format_expr", "free_vars", "map_children", "match", "multiple", "node", "promote",
    "replace", "rewrite", "rewrite_statements", "structural_equal", "substitute", "walk",
]  # fmt: skip
