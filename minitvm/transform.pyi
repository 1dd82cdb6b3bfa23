# For type checkers: `minitvm.transform` is this module (`_PLACES` in __init__.py).
from typing import Any

from .compat.tvm.transform import *

def __getattr__(name: str) -> Any: ...
