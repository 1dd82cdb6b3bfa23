"""The operators as pure tensor expressions, one file a family; each takes te tensors and gives te tensors."""

from .broadcast import *  # noqa: F403
from .elementwise import *  # noqa: F403
