"""The converters by family; importing this package registers all of them."""

from . import (
    arithmetic,
    attention,
    block_weights,
    caches,
    control,
    convolution,
    creation,
    elementwise,
    fused,
    indexing,
    normalization,
    pooling,
    qlinear,
    quantization,
    recurrent,
    reduction,
    refused,
    resizing,
    sampling,
    shaping,
)
