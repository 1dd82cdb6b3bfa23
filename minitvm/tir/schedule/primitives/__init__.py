"""The schedule primitives, one family a file. Importing a file registers what it defines."""

from . import annotate, kinds, loops, queries

__all__ = ["annotate", "kinds", "loops", "queries"]
