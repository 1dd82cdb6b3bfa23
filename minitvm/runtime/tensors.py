"""TVM's arrays and devices over NumPy: `tvm.nd.array(x, tvm.cpu())`, `tvm.runtime.tensor(x)`, `a.numpy()`.

An array is a NumPy array that also has TVM's methods, so compiled functions and NumPy accept it directly. The only
device of these arrays is the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..target import Target


@dataclass(frozen=True, slots=True)
class Device:
    """A device that holds arrays and runs programs, such as `tvm.cpu()`."""

    device_type: str = "cpu"
    index: int = 0

    @property
    def exist(self) -> bool:
        """Return whether programs can run on the device."""
        return self.device_type == "cpu"

    @property
    def device_id(self) -> int:
        """TVM's other name for `index`."""
        return self.index

    def sync(self, stream: Any = None) -> None:
        """Do nothing, because calls are complete when they return."""

    def __str__(self) -> str:
        return f"{self.device_type}:{self.index}"


def cpu(index: int = 0) -> Device:
    """Return the CPU device."""
    return Device("cpu", int(index))


def device(name: str = "cpu", index: int = 0) -> Device:
    """Return the device called `name`, such as "cpu" or "llvm". Raises `InputError` for a device that cannot hold
    arrays.
    """
    kind, _, number = str(name).partition(":")
    if kind not in ("cpu", "llvm", "c"):
        raise InputError(
            f"no array is on the device {name!r}: a program copies what it reads to its device, and results back\n"
            "  try:    tvm.cpu(), and minitvm.build(model, target='opencl')"
        )
    return Device("cpu", int(number or index))


class Tensor(np.ndarray[Any, Any]):
    """A NumPy array that also has TVM's methods."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy as a plain NumPy array."""
        return np.array(self, copy=True, subok=False)

    asnumpy = numpy

    @property
    def device(self) -> Device:  # type: ignore[override]
        """The device that holds the array, which is always the CPU."""
        return cpu()

    ctx = device

    def copyfrom(self, source: Any) -> Tensor:
        """Copy the elements of an array of the same shape into this one, converting them to its dtype.

        Raises `InputError` if the shapes differ.
        """
        values = np.asarray(source)
        if values.shape != self.shape:
            raise InputError(f"copyfrom: an array of shape {values.shape} into one of shape {self.shape}")
        self[...] = values
        return self

    def copyto(self, target: Target, mem_scope: Any = None) -> Any:
        """Copy the elements into another array, or to a device."""
        if isinstance(target, Device):
            return tensor(self, target)
        target[...] = self
        return target


def tensor(array: Any, device: Device | str | None = None, mem_scope: Any = None) -> Tensor:
    """Return a `Tensor` on the CPU that holds a copy of an array or of numbers. Python floats become float32, as in
    TVM.
    """
    _require_cpu(device)
    values = np.asarray(array)
    if not hasattr(array, "dtype") and values.dtype == np.float64:
        values = values.astype(np.float32)
    return np.array(values, order="C", copy=True, subok=False).view(Tensor)


def empty(
    shape: int | Sequence[int], dtype: str = "float32", device: Device | str | None = None, mem_scope: Any = None
) -> Tensor:
    """Return an uninitialised `Tensor`."""
    _require_cpu(device)
    return np.empty(shape, str(dtype)).view(Tensor)


def _require_cpu(where: Device | str | None) -> None:
    if isinstance(where, str):
        where = device(where)
    if where is not None and where.device_type != "cpu":
        raise InputError(f"arrays live on the CPU, found the device {where}")
