"""Exercise 00: compute the counts of the ledger without running the program.

This is the program of the lesson, where A has m rows and k columns, and B has k rows and n columns:

    for i, j in T.grid(m, n):
        Y[i, j] = T.float32(0)
        for r in range(k):
            Y[i, j] = Y[i, j] + A[i, r] * B[r, j]
        Y[i, j] = T.max(Y[i, j] + bias[j], T.float32(0))

Write `counts(m, n, k)`. It returns a dictionary with exactly these four entries. Each entry is a whole number (an int),
which you compute with a formula in m, n and k. A size may be 0 or a million, so do not count in a loop.

    "multiplies"   how many multiplications of data are done
    "adds"         how many additions of data are done (T.max is not an addition, and loop counters do not count)
    "loads"        how many elements are read, from all buffers together
    "stores"       how many elements are written

    counts(1, 1, 1) == {"multiplies": 1, "adds": 2, "loads": 5, "stores": 3}

Check it with: minitvm lesson 00 --check
"""

from __future__ import annotations


def counts(m: int, n: int, k: int) -> dict[str, int]:
    """The number of operations, loads and stores in `three_loops(m, n, k)`."""
    raise NotImplementedError("counts(m, n, k): the text at the top describes the task")
