# For type checkers: `minitvm.ir` is this module (`_PLACES` in __init__.py).
from typing import Any

from .compat.tvm.ir import *

def __getattr__(name: str) -> Any: ...
