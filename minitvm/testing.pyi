# For type checkers: `minitvm.testing` is this module (`_PLACES` in __init__.py).
from typing import Any

from .compat.tvm.testing import *

def __getattr__(name: str) -> Any: ...
