# For type checkers: `minitvm.nd` is this module (`_PLACES` in __init__.py).
from typing import Any

from .compat.tvm.nd import *

def __getattr__(name: str) -> Any: ...
