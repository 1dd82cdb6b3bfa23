"""The operators of level 1 by family; importing this package registers all of them."""

from . import (
    blocked,
    brain_products,
    byte_products,
    caches,
    counted,
    elements,
    elementwise,
    layouts,
    loops,
    nn,
    recurrent,
    reduce,
    transform,
)
