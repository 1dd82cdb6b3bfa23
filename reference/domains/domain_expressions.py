"""Compile expressions so that operators on floats are those of a `Domain`."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from minitvm import expr as x

from ..meaning.intrinsics import VECTOR_REDUCTIONS
from ..meaning.scalar import _REDUCERS, Environment, Evaluate, ScalarCompiler, Value
from .domain import Domain

Compiler = TypeVar("Compiler", bound=ScalarCompiler)


class DomainExpressions(ScalarCompiler):
    """Mixed into a compiler of any level and mode; see `in_domain`."""

    domain: Domain

    def _constant(self, e: Any) -> Evaluate:
        if not isinstance(e, x.FloatImm):
            return super()._constant(e)
        value = self.domain.constant(e)
        return lambda env: value

    def _binary(self, e: x.BinaryOp) -> Evaluate:
        if not e.a.dtype.is_float:
            return super()._binary(e)
        a, b, slot = self.expr(e.a), self.expr(e.b), self.mask_slot
        function = self.domain.binary(type(e), e.a.dtype, e)
        return lambda env: function(a(env), b(env), env[slot])

    def _cast(self, e: x.Cast) -> Evaluate:
        if not (e.dtype.is_float or e.value.dtype.is_float):
            return super()._cast(e)
        value, slot = self.expr(e.value), self.mask_slot
        function = self.domain.cast(e.value.dtype, e.dtype, e)
        return lambda env: function(value(env), env[slot])

    def _call(self, e: x.Call) -> Evaluate:
        floats = e.dtype.is_float or any(a.dtype.is_float for a in e.args)
        plain = e.op in x.INTRINSICS and x.INTRINSICS[e.op].pure and e.op != "if_then_else"
        if not (floats and plain) or e.op in VECTOR_REDUCTIONS:
            return super()._call(e)
        args, slot = [self.expr(a) for a in e.args], self.mask_slot
        function = self.domain.call(e.op, e.dtype, [a.dtype for a in e.args], e)
        return lambda env: function(env[slot], *[a(env) for a in args])

    def _vector_reduce(self, e: x.Call) -> Evaluate:
        if not e.dtype.is_float:
            return super()._vector_reduce(e)
        vector, dtype, slot = self.expr(e.args[0]), e.args[0].dtype, self.mask_slot
        function = self.domain.binary(_REDUCERS[VECTOR_REDUCTIONS[e.op]], dtype, e)

        def evaluate(env: Environment) -> Value:
            value = np.asarray(vector(env))
            # One lane may represent all of them. If there are many points, the lane axis stays, with length 1.
            lanes = np.broadcast_to(value, (*value.shape[:-1], dtype.lanes))
            parts = [lanes[..., k : k + 1] if value.ndim > 1 else lanes[k] for k in range(dtype.lanes)]
            total = parts[0]
            for part in parts[1:]:
                total = function(total, part, env[slot])
            return total

        return evaluate


def in_domain(kind: type[Compiler], domain: Domain | None) -> type[Compiler]:
    """Return the compiler class in which floats are elements of a domain; without a domain, the class itself."""
    if domain is None:
        return kind
    return type(f"{kind.__name__}In{type(domain).__name__}", (DomainExpressions, kind), {"domain": domain})
