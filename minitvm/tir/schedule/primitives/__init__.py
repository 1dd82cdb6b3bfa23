"""The schedule primitives, one family a file. Importing a file registers what it defines."""

from . import annotate, cache, kinds, loops, queries

__all__ = ["annotate", "cache", "kinds", "loops", "queries"]
