# For type checkers: `minitvm.relax` is this module (`_PLACES` in __init__.py).
from typing import Any

from .compat.tvm.relax import *

def __getattr__(name: str) -> Any: ...
