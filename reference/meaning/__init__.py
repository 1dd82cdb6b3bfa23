"""The meaning of expressions, statements and memory, defined for one element and one iteration at a time."""
