"""Caches of keys and values: what lets a language model decode one token at a time."""

from __future__ import annotations

from ... import topi
from ..registry import Pattern, register

register("nn.cache_update", pattern=Pattern.OPAQUE, updates=True)(topi.cache_update)
register("nn.cached_attention", pattern=Pattern.OPAQUE)(topi.cached_attention)
