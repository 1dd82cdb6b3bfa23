"""Operators whose number of results are data, and what makes that number a size of the graph."""

from __future__ import annotations

from ... import topi
from ..registry import Pattern, refuse, register

register("argwhere", pattern=Pattern.OPAQUE)(topi.argwhere)
register("bind_size", pattern=Pattern.OPAQUE)(topi.bind_size)
register("leading", pattern=Pattern.INJECTIVE)(topi.leading)
register("unique", pattern=Pattern.OPAQUE)(topi.unique)
register("vision.all_class_non_max_suppression", pattern=Pattern.OPAQUE)(topi.all_class_non_max_suppression)

_INSTEAD = {"nonzero": "argwhere", "vision.non_max_suppression": "vision.all_class_non_max_suppression"}
for _name, _other in _INSTEAD.items():
    refuse(_name, f"{_other} returns all places, and how many of them count")
