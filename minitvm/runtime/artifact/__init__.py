"""Saved artifacts: a compiled module in one file, which can be loaded without the compiler.

`export` writes one, `load` reads it; `format` defines the file, `sign` signs it, `pickled` puts it into pickles. Their
docstrings describe the contents.
"""
