"""Saved artifacts: a compiled module in one file, which is loaded without the compiler.

`export` writes one, `load` reads it; `format` defines the file, `sign` signs it. Their docstrings describe the
contents.
"""
