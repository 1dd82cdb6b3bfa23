"""What generated kernel source may use. (contract to be completed)"""

from __future__ import annotations

import re
from typing import Any

from . import arithmetic, memory
from .lanes import ELEMENTS, MAX_LANES

_NAMES: dict[str, Any] = {**arithmetic.MARKERS, **memory.MARKERS}
_VECTOR_NAME = re.compile(r"([a-z]\d+)(?:x(\d+))?")


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    match = _VECTOR_NAME.fullmatch(name)
    if match is None or match[1] not in ELEMENTS or not 1 <= int(match[2] or 1) <= MAX_LANES:
        raise AttributeError(f"kernel source has no {name!r}")
    _NAMES[name] = memory.cast_marker(ELEMENTS[match[1]], int(match[2] or 0))
    return _NAMES[name]
