"""Exercise 31: find the loops that an instruction can replace.

A sum of products is a dictionary:

    {"loops": {"i": 32, "j": 16, "k": 64}, "result": "ij", "left": "ik", "right": "jk"}

This dictionary means: result[i, j] = the sum over k of left[i, k] * right[j, k]. Each loop has a letter and an extent.
An operand is given by its indices, the letters of some loops. The sum runs over all loops that are not in the result.
Write

    mappings(computation, instruction) -> list of dictionaries

Both arguments are sums of products. A mapping names a loop of the computation for each loop of the instruction. Return
all mappings with which the computation could be tensorized, by cutting each named loop into tiles that are as long as
the instruction loop. These are the mappings where

- different loops of the instruction are mapped to different loops of the computation,
- the extent of each named loop is a multiple of the extent of its instruction loop, and
- the operands fit. The result of the computation must fit the result of the instruction. left and right must fit left
  and right, or right and left, because the order of a product does not matter. Two operands fit if, for every loop of
  the instruction, either both have it or neither has it: the operand of the instruction has the loop itself, and the
  operand of the computation has the loop that is named for it. The choice between the two orders is made once for all
  loops.

The order of the list does not matter, and no mapping may be in it twice. Do not change the arguments. Each argument has
at least one loop.

    matmul = {"loops": {"i": 32, "j": 16, "k": 64}, "result": "ij", "left": "ik", "right": "jk"}
    row = {"loops": {"n": 16, "p": 4}, "result": "n", "left": "p", "right": "np"}
    mappings(matmul, row)   ->   [{"n": "j", "p": "k"}, {"n": "i", "p": "k"}]

In the second mapping, left and right change places.

Check it with: minitvm lesson 31 --check
"""

from __future__ import annotations

from typing import Any


def mappings(computation: dict[str, Any], instruction: dict[str, Any]) -> list[dict[str, str]]:
    """All mappings of the instruction's loops to loops of the computation that fit."""
    raise NotImplementedError("mappings(computation, instruction): the text at the top describes the task")
