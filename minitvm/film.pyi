# For type checkers: `minitvm.film` is this module (`_PLACES` in __init__.py).
from .tools.film import Canvas as Canvas
from .tools.film import Film as Film
