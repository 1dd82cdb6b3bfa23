"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import te, topi
from ...topi.recurrent import layer_of
from ..registry import Pattern, register


def _infer(op: str) -> Callable[..., Any]:
    """The types of the results, without writing the loops."""

    def infer(*types: Any, **attrs: Any) -> Any:
        return layer_of(op, [te.placeholder(shape, dtype) for shape, dtype in types], **attrs).results

    return infer


register("nn.gru", pattern=Pattern.OPAQUE, infer=_infer("nn.gru"))(topi.gru)
register("nn.lstm", pattern=Pattern.OPAQUE, infer=_infer("nn.lstm"))(topi.lstm)
register("nn.rnn", pattern=Pattern.OPAQUE, infer=_infer("nn.rnn"))(topi.rnn)
