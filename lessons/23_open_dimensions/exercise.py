"""Exercise 23: the shape of `x + y` when some dimensions are names.

A dimension is a number (int) or a name (str). The value of a name is known only when the network runs. As in NumPy,
shapes are compared from their last dimension, and a missing dimension is 1. Write

    broadcast(a, b) -> (shape, guards)

For each pair of dimensions p of a and q of b:

- equal numbers or equal names: the result has that dimension;
- one of them is the number 1: the result has the other dimension;
- two different numbers, neither of them 1: raise ValueError;
- a name and a number other than 1, or two different names: assume that p and q are equal. The result has the number if
  there is one, and otherwise the name from `a`. The pair (p, q) is a guard, which means that the equality is checked
  when the network runs. (In NumPy a dimension whose name turns out to be 1 would be repeated. We exclude this case on
  purpose.)

`shape` is a tuple of dimensions. `guards` is a list of pairs (p, q), in the order of the dimensions of the result from
the first to the last. Each pair is listed once. A pair begins with the dimension of `a`, so ("n", "k") and ("k", "n")
are two different pairs. A number may be 0, as in NumPy. The dimensions 0 and 1 give 0.

    broadcast(("n", 64), ("k", 1))   ->   (("n", 64), [("n", "k")])
    broadcast((3, "n"), (64,))       ->   ((3, 64), [("n", 64)])

Check it with: minitvm lesson 23 --check
"""

from __future__ import annotations

Dim = int | str


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[tuple[Dim, ...], list[tuple[Dim, Dim]]]:
    """The shape of the sum, and the pairs of dimensions that must be equal when the network runs."""
    raise NotImplementedError("broadcast(a, b): the text at the top describes the task")
