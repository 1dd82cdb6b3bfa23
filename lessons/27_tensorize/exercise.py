"""Exercise 27: which loops are the instruction's.

A sum of products is a dictionary:

    {"loops": {"i": 32, "j": 16, "k": 64}, "result": "ij", "left": "ik", "right": "jk"}

for result[i, j] = the sum over k of left[i, k] * right[j, k]. A loop has one letter and an extent; an operand is the
letters of the loops that it is read at. Loops that are not in the result are summed over. Write

    mappings(computation, instruction) -> list of dictionaries

Both arguments are sums of products. A mapping names, for each loop of the instruction, a loop of the computation, such
that these could be tensorized: of each, a tile of the instruction's extent becomes the instruction. That is so where

- no two loops of the instruction have the same loop,
- the extent of the computation's loop is a multiple of the instruction's,
- operands fit: the result with the result, and left and right with left and right, or with right and left, since
  products commute. An operand of the computation has the mapped loop among its letters exactly where the operand of the
  instruction that it becomes has the loop. Which of the two orders it is has to be the same for all loops.

The order of the list does not matter, and no mapping stands in it twice. Leave both arguments as they are. Each has at
least one loop.

    matmul = {"loops": {"i": 32, "j": 16, "k": 64}, "result": "ij", "left": "ik", "right": "jk"}
    row = {"loops": {"n": 16, "p": 4}, "result": "n", "left": "p", "right": "np"}
    mappings(matmul, row)   ->   [{"n": "j", "p": "k"}, {"n": "i", "p": "k"}]

In the second one left and right change places.

Check it with: minitvm lesson 27 --check
"""

from __future__ import annotations

from typing import Any


def mappings(computation: dict[str, Any], instruction: dict[str, Any]) -> list[dict[str, str]]:
    """All the ways in which tiles of the computation's loops are the instruction."""
    raise NotImplementedError("mappings(computation, instruction): the text at the top says what is wanted")
