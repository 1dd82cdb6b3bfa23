"""Wrong: counts in loops: right, but it never comes to an end for large sizes."""

from __future__ import annotations


def counts(m: int, n: int, k: int) -> dict[str, int]:
    mul = add = load = store = 0
    for _i in range(m):
        for _j in range(n):
            store += 1
            for _r in range(k):
                load += 3
                mul += 1
                add += 1
                store += 1
            load += 2
            add += 1
            store += 1
    return {"multiplies": mul, "adds": add, "loads": load, "stores": store}
