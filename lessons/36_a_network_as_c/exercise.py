"""Exercise 36: the memory plan as a C declaration.

The C program of lesson 36 finds a value at `arena + offset`. A debugger would show more if the arena had a type. Write

    declaration(values, size) -> str

which returns the C text that declares the type `arena_t`, so that `((arena_t *)arena)->NAME` is a value of the plan.

- `values` is a list of `Placed` (lessons/arenas.py). A value has a `name`, a C type `ctype`, a `count` of elements, and
  an `offset` in bytes. Its member of `arena_t` has the type `CTYPE NAME[COUNT]` and begins exactly at the offset.
- Values may share bytes, because they are not all needed at the same time. They come in any order.
- `ctype` is one of float, double, int8_t, uint8_t, int32_t and int64_t, and the offset is a multiple of its size.
  `count` is at least 1.
- `sizeof(arena_t)` is exactly `size`, a multiple of 8. It is at least 8, and no value reaches beyond it. It may be
  larger than the values need, and the list may be empty.
- The names are different C identifiers, and none of them is a keyword. Any identifier may occur, for example `pad`,
  `pad_0` or `size`, but not `arena_t`.
- The text is compiled as C11 with -Wall -Wextra -Werror -pedantic, after `#include <stdint.h>`. It contains no
  preprocessor lines.

Check it with: minitvm lesson 36 --check
"""

from __future__ import annotations

from collections.abc import Sequence

from lessons.arenas import Placed


def declaration(values: Sequence[Placed], size: int) -> str:
    """Return C text that declares the type `arena_t`, with a member for each value."""
    raise NotImplementedError("declaration: the text at the top describes the task")
