"""The converters by family; importing this package registers all of them."""

from . import (
    arithmetic,
    control,
    convolution,
    creation,
    elementwise,
    indexing,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    refused,
    resizing,
    sampling,
    shaping,
)
