"""Exercise 27: place the tokens.

Three modules, "load", "compute" and "store", run at the same time. Each of them runs its own instructions in order.
Write

    tokens(program)

`program` is a list of tuples (module, reads, writes). `reads` and `writes` are sets of places such as {"inp0", "acc2"},
and each of them may be empty. Do not change `program`. Return a list of pairs (a, b) of numbers of instructions. Each
pair is a token: instruction a pushes it when a has ended, and instruction b pops it before b begins.

Two instructions of different modules must be in order if they touch the same place and at least one of them writes it:
the instruction that comes first in the program must end before the other begins. A token (a, b) puts a before b.
Instructions of the same module are always in order. If a is before b and b is before c, then a is before c.

Only neighbours pass tokens to each other: load and compute, and compute and store. (Load and store have no place in
common.) An instruction pushes at most one token to a neighbour, and pops at most one token from it. The tokens from one
module to another are in a queue: the token that is pushed first is popped first, so tokens must not cross. There must
be no unnecessary token: if you leave out any token, two instructions must be out of order.

    load0, load1 = ("load", set(), {"inp0"}), ("load", set(), {"inp1"})
    store = ("store", {"acc0"}, set())

    tokens([load0, ("compute", {"inp0"}, {"acc0"})])                    ->   [(0, 1)]
    tokens([load0, load1, ("compute", {"inp0", "inp1"}, {"acc0"})])     ->   [(1, 2)]
    tokens([load0, ("compute", {"inp1"}, {"acc0"}), store])             ->   [(1, 2)]

Check it with: minitvm lesson 27 --check
"""

from __future__ import annotations

Instruction = tuple[str, set[str], set[str]]


def tokens(program: list[Instruction]) -> list[tuple[int, int]]:
    """The pairs (instruction that pushes, instruction that pops)."""
    raise NotImplementedError("tokens(program): the text at the top describes the task")
