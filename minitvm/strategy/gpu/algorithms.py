"""Which algorithm a convolution gets on a GPU."""

from __future__ import annotations

from typing import Any

from ..algorithms import Convolution, direct_alone
from ..candidate import Option
from ..cpu import algorithms as processors


def convolution_algorithms(conv: Convolution, block: int, target: Any, accuracy: str = "fast") -> list[Option]:
    """The algorithms that fit, the cheapest first."""
    if target.processor is not None:
        return processors.convolution_algorithms(conv, block, target, accuracy)
    return direct_alone(conv, block, target, accuracy)
