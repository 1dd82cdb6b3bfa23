"""Memory that another library shares by DLPack, and NumPy does not take: bfloat16.

The capsule is not consumed: the array holds it, and its producer frees the memory when it goes. After the header of
DLPack 1.0, dlpack.h.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..expr import DType

_CPU, _BFLOAT = 1, 4  # DLDeviceType, DLDataTypeCode


class _Tensor(ctypes.Structure):
    """DLTensor, with which a capsule named "dltensor" begins."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Shared:
    """What NumPy makes an array of, and holds as long as that lives."""

    def __init__(self, tensor: _Tensor, capsule: Any) -> None:
        self.capsule = capsule
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<u2",
            "shape": tuple(tensor.shape[: tensor.ndim]),
            "strides": tuple(2 * s for s in tensor.strides[: tensor.ndim]) if tensor.strides else None,
            "data": ((tensor.data or 0) + tensor.byte_offset, False),
        }


def shared(value: Any) -> np.ndarray[Any, Any]:
    """An array over the memory of an object with `__dlpack__`; raises what the object or NumPy raises."""
    try:
        return np.from_dlpack(value)
    except Exception:
        array = brain_floats(value)
        if array is None:
            raise
        return array


def brain_floats(value: Any) -> np.ndarray[Any, Any] | None:
    """An array over memory of the CPU that holds bfloat16; None where it holds anything else."""
    if not hasattr(value, "__dlpack__") or value.__dlpack_device__()[0] != _CPU:
        return None
    capsule = value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    if (tensor.code, tensor.bits, tensor.lanes) != (_BFLOAT, 16, 1):
        return None
    return np.asarray(_Shared(tensor, capsule)).view(DType("bfloat16").numpy)
