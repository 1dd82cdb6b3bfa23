"""The converters by family. Importing this package registers all of them."""

from . import (
    activations,
    arithmetic,
    control,
    convolution,
    creation,
    indexing,
    lstm,
    normalization,
    pooling,
    products,
    recurrent,
    reduction,
    refused,
    resizing,
    shaping,
    slicing,
    stablehlo,
    transposed,
    types,
)
