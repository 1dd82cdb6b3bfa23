"""Convert PyTorch's dtypes and tensors to ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ModelError, UnsupportedOperator
from ...expr import DType

_DTYPES = frozenset({
    "bfloat16", "bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8", "uint16", "uint32",
    "uint64", "uint8",
})  # fmt: skip


def dtype_of(dtype: Any, where: str) -> DType:
    """Return the dtype for a `torch.dtype`. Raises `UnsupportedOperator`, which names the type and the place
    `where`.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise UnsupportedOperator(f"{where}: dtype {name} is not supported")
    return DType(name)


def array_of(tensor: Any, where: str) -> np.ndarray:
    """Return the contents of a tensor, without a copy if it is in the CPU's memory."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(tensor, FakeTensor) or tensor.is_meta:
        raise ModelError(f"{where}: the program was exported without the contents of its parameters")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise UnsupportedOperator(f"{where}: tensors of the layout {tensor.layout} are not supported")
    dtype = dtype_of(tensor.dtype, where)
    plain = tensor.detach().cpu().resolve_neg()
    if dtype == "bfloat16":  # which NumPy's arrays of torch cannot be
        plain = plain.view(torch.int16)
    array: np.ndarray = plain.numpy().view(dtype.numpy)
    return array
