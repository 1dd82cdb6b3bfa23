"""The schedule primitives, one family a file. Importing a file registers what it defines."""

from . import annotate, cache, compute_at, inline, kinds, loops, queries, reduction

__all__ = ["annotate", "cache", "compute_at", "inline", "kinds", "loops", "queries", "reduction"]
