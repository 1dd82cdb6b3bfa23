"""Saved artifacts: a compiled module in one file, and the way back without the compiler.

`export` writes one, `load` reads it; `format` is the file, `sign` says whose it is. What stands in the file is in the
docstring of each.
"""
