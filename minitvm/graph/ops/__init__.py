"""The operators of level 1 by family; importing this package registers all of them."""

from . import blocked, elementwise, layouts, nn, reduce, transform
