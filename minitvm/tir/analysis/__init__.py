"""Analyses of programs that are shared by schedules, passes, linking and checks.

TVM's names for such analyses (`compat/tvm/analysis.py`) are attributes of this package.
"""

import importlib
from typing import Any

from ... import doors
from ...absent import absent

_OF_TVM = (
    "detect_buffer_access_lca", "expr_deep_equal", "get_block_access_region", "get_block_read_write_region",
    "undefined_vars", "verify_well_formed",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _OF_TVM:
        return getattr(importlib.import_module(doors.ANALYSIS), name)
    raise absent(__name__, name, list(_OF_TVM))
