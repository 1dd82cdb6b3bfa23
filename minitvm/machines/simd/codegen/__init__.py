"""The parts that the Numba dialects share: expressions, statements, operands and their alignment."""

__all__ = ["alignment", "numba_expressions", "operands"]
