"""TVM's `tvm.nd` (before v0.21): arrays that compiled functions take. They are NumPy arrays; see `runtime.tensors`."""

from __future__ import annotations

from ...runtime.tensors import Device, Tensor, cpu, device, empty
from ...runtime.tensors import tensor as array

NDArray = Tensor

__all__ = ["Device", "NDArray", "Tensor", "array", "cpu", "device", "empty"]
