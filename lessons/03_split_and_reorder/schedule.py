"""The schedules of this lesson: the tiles, and the staircase, whose loops may not be exchanged.

minitvm explore --static tiles.html schedule.py
"""

from minitvm.tools.cli.lesson import open_lessons

open_lessons()

from lessons import example
from minitvm import tir
from minitvm.script import tir as T

tiles = tir.Schedule(example.blocks(32, 32, 32))
i, j, r = tiles.get_loops("C")
tiles.reorder(i, r, j)
j_0, j_1 = tiles.split(j, factors=[None, 16])
r_0, r_1 = tiles.split(r, factors=[None, 8])
tiles.reorder(j_0, r_0, i, r_1, j_1)


@T.prim_func
def staircase(A: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(7, 7):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + T.float32(1)


stairs = tir.Schedule(staircase)
i, j = stairs.get_loops("S")
stairs.reorder(j, i)  # refused: the last step of this file, so the explorer shows why
