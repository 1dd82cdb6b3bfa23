"""The converters by family. Importing this package registers all of them."""

from . import (
    arithmetic,
    attention,
    convolution,
    counted,
    creation,
    elementwise,
    indexing,
    normalization,
    padding,
    pooling,
    reduction,
    refused,
    resizing,
    scattering,
    shaping,
    sorting,
)
