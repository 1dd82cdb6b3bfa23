"""Read the arguments of a call in native code: one call of a C function instead of some 3 us of Python.

An array is an object of NumPy's C interface, in which extension modules read these fields directly (`PyArrayObject`):

    a header of Python's, whose last word is the type
    data, number of dimensions (int32), dimensions, strides, base, dtype, flags (int32)

All of them are words of 8 bytes; a header's length is `object.__basicsize__`. `arrays_are_readable` compares this
layout with an array, and without it Python reads the arguments. The text is a part of the executor (`executor`), so
that artifacts have it, too.

**Table** (int64 words): the head, and then for each argument

    LENGTH          words of this argument
    DTYPE, FLAGS    the address of the dtype, and flags of NumPy's that must be set
    NBYTES          of the array
    WRITTEN         1: an output
    BEGIN, END      the memory of the last array that was read
    RANK, SLOTS     how many dimensions and slots follow

then the dimensions, and the slots: words of the program's argument table that get the address of the array.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....events import Listener
from ....executable import Input
from ....executable.alignment import address
from ....runtime.argument_reader import ArgumentReader, ExpectedArray

if TYPE_CHECKING:
    from .program import BoundProgram

# The head: how many arguments; whether the last ones are as expected; the words before the items of a tuple, and before
# the fields of an array; the address of the type of arrays; the address of the program's argument table.
COUNT, FITS, ITEMS, HEADER, NDARRAY, PLACES, HEAD_WORDS = range(7)
LENGTH, DTYPE, FLAGS, NBYTES, WRITTEN, BEGIN, END, RANK, SLOTS, ROW_WORDS = range(10)
_DATA, _DIMENSIONS, _DTYPE, _FLAGS = 0, 2, 5, 6  # words of an array after the header; 1 is the number of dimensions
_WORD, _INT32 = 8, (1 << 32) - 1
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # NPY_ARRAY_C_CONTIGUOUS, and so on

# The entry's arguments are a tuple instead of the state table, one of these instead of the number of a thread, and the
# address of the table. READ_SHARED also compares the arguments' memory.
READ, READ_SHARED = -1, -2

TEXT = f"""
if thread < 0:  # read the arguments of a call: see `native_reader`
    table = pointer_i64(threads)
    places = pointer_i64(table[{PLACES}])
    header = table[{HEADER}]
    table[{FITS}] = 0
    line = {HEAD_WORDS}
    for number_of_array in range(table[{COUNT}]):
        array = pointer_i64(state[table[{ITEMS}] + number_of_array])
        if array[header - 1] != table[{NDARRAY}]:
            return
        if array[header + {_DTYPE}] != table[line + {DTYPE}]:
            return
        if array[header + {_FLAGS}] & table[line + {FLAGS}] != table[line + {FLAGS}]:
            return
        rank = table[line + {RANK}]
        if array[header + 1] & {_INT32} != rank:
            return
        shape = pointer_i64(array[header + {_DIMENSIONS}])
        for axis in range(rank):
            if shape[axis] != table[line + {ROW_WORDS} + axis]:
                return
        begin = array[header + {_DATA}]
        table[line + {BEGIN}] = begin
        table[line + {END}] = begin + table[line + {NBYTES}]
        if thread == {READ_SHARED}:
            other = {HEAD_WORDS}
            for number_of_other in range(number_of_array):
                if table[line + {WRITTEN}] + table[other + {WRITTEN}] > 0:
                    if begin < table[other + {END}] and table[other + {BEGIN}] < table[line + {END}]:
                        return
                other += table[other + {LENGTH}]
        for slot in range(table[line + {SLOTS}]):
            places[table[line + {ROW_WORDS} + rank + slot]] = begin
        line += table[line + {LENGTH}]
    table[{FITS}] = 1
    return
"""


@functools.cache
def arrays_are_readable() -> bool:
    """Return whether Python and NumPy have the layout that the text reads."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little" or object.__basicsize__ % _WORD:
        return False
    array = np.zeros((3, 5), np.float32)
    values = (array,)
    items, header = _headers()
    if np.ndarray.__basicsize__ < (header + _FLAGS + 1) * _WORD:
        return False
    words = _words_at(id(array), header + _FLAGS + 1)
    return (
        _words_at(id(values), items + 1)[items] == id(array)
        and words[header - 1] == id(np.ndarray)
        and words[header + _DATA] == address(array)
        and words[header + 1] & _INT32 == array.ndim
        and words[header + _DTYPE] == id(array.dtype)
        and words[header + _FLAGS] & _INT32 == array.flags.num
        and _words_at(words[header + _DIMENSIONS], array.ndim) == list(array.shape)
    )


def _headers() -> tuple[int, int]:
    """Return the words before the items of a tuple, and before the fields of an array."""
    return tuple.__basicsize__ // _WORD, object.__basicsize__ // _WORD


def _words_at(place: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(place))


class NativeReader(ArgumentReader):
    """Reads the arguments of a bound program into its argument table."""

    bound: BoundProgram

    def __init__(self, bound: BoundProgram, arrays: Sequence[ExpectedArray], executor: int) -> None:
        super().__init__(bound, arrays)
        rows = [self._row(array) for array in arrays]
        head = [0] * HEAD_WORDS
        head[COUNT], head[ITEMS], head[HEADER] = len(arrays), *_headers()
        head[NDARRAY], head[PLACES] = id(np.ndarray), bound.table_place
        table = np.array([*head, *(word for row in rows for word in row)], np.int64)
        self._table = table.data
        # ctypes converts only the values in each call.
        self._native = ctypes.PYFUNCTYPE(None, ctypes.py_object)(executor)
        self._read, self._read_shared = map(ctypes.c_int64.from_param, (READ, READ_SHARED))
        self._place = ctypes.c_void_p.from_param(address(table))

    def _row(self, array: ExpectedArray) -> list[int]:
        written = not isinstance(array.place, Input)
        slots = self.bound.slots(array.place)
        row = [0] * ROW_WORDS
        row[LENGTH] = ROW_WORDS + len(array.shape) + len(slots)
        row[DTYPE], row[NBYTES] = id(array.dtype.numpy), math.prod(array.shape) * array.dtype.numpy.itemsize
        row[FLAGS] = _CONTIGUOUS | _ALIGNED | (_WRITEABLE if written else 0)
        row[WRITTEN], row[RANK], row[SLOTS] = int(written), len(array.shape), len(slots)
        return [*row, *array.shape, *slots]

    def read(self, values: tuple[Any, ...], shared: bool) -> bool:
        self._native(values, self._read_shared if shared else self._read, self._place)
        return self._table[FITS] == 1

    def run(self, listeners: Sequence[Listener]) -> None:
        self.bound.run_pointed(listeners)
