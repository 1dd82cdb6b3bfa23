"""The converters by family. Importing this package registers all of them."""

from . import (
    activations,
    arithmetic,
    control,
    convolution,
    pooling,
    products,
    reduction,
    refused,
    resizing,
    shaping,
    slicing,
    types,
)
