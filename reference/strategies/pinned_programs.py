"""Small programs in which the order of iterations matters; every test of a primitive tries all of them.

Each has a dependence that a primitive may break: a chain along each loop, a staircase, a prefix in place, scratch
shared by iterations, a reduction whose order matters, an input that is overwritten, a tail. They use the notation of
docstrings (`tir.schedule.examples`). `{this|that}` means `this` in the program, and `that` in its twin without the
dependence, for example B[i + 1] = {B|A}[i].
"""

from __future__ import annotations

import re
from functools import cache

from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule.examples import program_of


def _after_a_copy(rows: int, columns: int, body: str) -> str:
    """Return the text of a nest that updates B in place, after a nest that copies A to B."""
    copy = f"for x, y in T.grid({rows}, {columns}):\n  with T.block('copy'): B[vx, vy] = A[vx, vy]\n"
    return f"{copy}for i, j in T.grid(3, 3):\n  with T.block('B'): {body}\n"


_ALTERNATIVES = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")

PINNED = {
    "a chain along the outer loop": _after_a_copy(4, 3, "B[vi + 1, vj] = B[vi + 1, vj] + {B|A}[vi, vj]"),
    "a chain along the inner loop": _after_a_copy(3, 4, "B[vi, vj + 1] = B[vi, vj + 1] + {B|A}[vi, vj]"),
    "a chain along both loops": _after_a_copy(4, 4, "B[vi + 1, vj + 1] = B[vi + 1, vj + 1] + {B|A}[vi, vj]"),
    "a staircase": _after_a_copy(4, 4, "B[vi + 1, vj] = B[vi + 1, vj] + {B|A}[vi, vj + 1]"),
    "a staircase of rows that are overwritten": _after_a_copy(4, 4, "B[vi, vj + 1] = {B|A}[vi + 1, vj] * 2.0"),
    "a prefix in place": """
for x in range(5):
  with T.block("copy"): B[vx] = A[vx]
for i in range(4):
  with T.block("B"): B[vi + 1] = {B|A}[vi] + B[vi + 1]
""",
    "a shift in place": """
for x in range(5):
  with T.block("copy"): B[vx] = A[vx]
for i in range(4):
  with T.block("B"): B[vi] = {B|A}[vi + 1] * 2.0
""",
    "a prefix of an opaque iterator": """
for x in range(1):
  with T.block("first"): B[vx] = 0.0
for i in range(4):
  with T.block("B"):
    vi = T.axis.opaque(4, i)
    B[vi + 1] = B[vi] + A[vi]
""",
    "one element of scratch": """
S = T.alloc_buffer((4,))
for i in range(4):
  with T.block("S"):
    vi = T.axis.spatial(4, i)
    S[{0|vi}] = A[vi]
  with T.block("B"): B[vi] = S[{0|vi}] * 2.0
""",
    "one row of scratch": """
S = T.alloc_buffer((3, 3))
for i in range(3):
  for j in range(3):
    with T.block("S"):
      vi, vj = T.axis.remap("SS", [i, j])
      S[{0|vi}, vj] = A[vi, vj]
  for k in range(3):
    with T.block("B"): B[vi, vk] = S[{0|vi}, 2 - vk] * 2.0
""",
    "the last of several writers": """
for i, j in T.grid(3, 3):
  with T.block("B"): B[vi{|* 3} + vj] = A[vi, vj]
""",
    "a writer for two iterations": """
for i, j in T.grid(2, 4):
  with T.block("B"): B[vi, vj{ // 2|}] = A[vi, vj]
""",
    "two writers, one after the other": """
for i in range(4):
  with T.block("first"): B[vi] = A[vi]
for k in range(4):
  with T.block("second"): {B|C}[3 - vk] = A[vk] * 2.0
""",
    "a reader of the last element first": """
for i in range(4):
  with T.block("B"): B[vi] = A[vi] + 1.0
for k in range(4):
  with T.block("C"): C[vk] = {B|A}[3 - vk] * 2.0
""",
    "a reader of two neighbours": """
B = T.alloc_buffer((5,))
for i in range(5):
  with T.block("B"): B[vi] = A[vi] + 1.0
for k in range(4):
  with T.block("C"): C[vk] = B[vk] + B[vk + 1]
""",
    "an input that is overwritten between its readers": """
X = T.alloc_buffer((4,))
Y = T.alloc_buffer((4,))
B = T.alloc_buffer((4,))
for i in range(4):
  with T.block("X"): X[vi] = A[vi]
for j in range(4):
  with T.block("B"): B[vj] = X[vj] + 1.0
for k in range(4):
  with T.block("again"): {X|Y}[vk] = A[vk] * 3.0
for l in range(4):
  with T.block("C"): C[vl] = B[vl] + {X|Y}[vl]
""",
    "an index that is rewritten between its readers": """
A: T.Buffer((4,), "float32")
J = T.alloc_buffer((4,), "int32")
for i in range(4):
  with T.block("J"): J[vi] = vi
for j in range(4):
  with T.block("B"): B[vj] = A[J[vj]]
for k in range(4):
  with T.block("again"): J[vk] = 3 - vk
for l in range(4):
  with T.block("C"): C[vl] = A[J[vl]] * 2.0
""",
    "a sum of rows": """
for i, k in T.grid(3, 4):
  with T.block("C"):
    with T.init(): C[vi] = 0.0
    C[vi] = C[vi] + A[vi, vk]
""",
    "a sum of columns": """
for k, i in T.grid(4, 3):
  with T.block("C"):
    with T.init(): C[vi] = 0.0
    C[vi] = C[vi] + A[vk, vi]
""",
    "a sum whose last value is read first": """
for x in range(3):
  with T.block("seven"): S[vx] = 7.0
for i, k in T.grid(3, 4):
  with T.block("P"):
    vi, vk = T.axis.remap("SS", [i, k])
    P[vi, vk] = {S[vi]|A[vi, vk]}
  with T.block("S"):
    with T.init(): S[vi] = 0.0
    S[vi] = S[vi] + A[vi, vk]
""",
    "a sum that is started twice": """
for i, r, k in T.grid(2, 2, 3):
  with T.block("B"):
    vi = T.axis.spatial({3|4}, i{| * 2} + r)
    vk = T.axis.reduce(3, k)
    with T.init(): B[vi] = 0.0
    B[vi] = B[vi] + A[vi, vk]
""",
    "a sum over two axes": """
for k, i, l in T.grid(2, 3, 2):
  with T.block("C"):
    with T.init(): C[vi] = 0.0
    C[vi] = C[vi] + A[vi, vk * 2 + vl]
""",
    "a fold that is no sum": """
for i, k in T.grid(3, 4):
  with T.block("C"):
    with T.init(): C[vi] = 0.0
    C[vi] = C[vi]{ * 2.0|} + A[vi, vk]
""",
    "a sum whose parts are read": """
S = T.alloc_buffer((3,))
for i, k in T.grid(3, 4):
  with T.block("S"):
    with T.init(): S[vi] = 0.0
    S[vi] = S[vi] + A[vi, vk]
  with T.block("P"):
    vi, vk = T.axis.remap("SS", [i, k])
    P[vi, vk] = S[vi]
""",
    "a sum that begins from what is written beside it": """
D = T.alloc_buffer((3,))
for i in range(3):
  with T.block("D"): D[vi] = A[vi, 0] * 2.0
  for k in range(4):
    with T.block("C"):
      with T.init(): C[vi] = {D[vi]|0.0}
      C[vi] = C[vi] + A[vi, vk]
""",
    "a sum, and what is added to it later": """
S = T.alloc_buffer((3,))
D = T.alloc_buffer((3,))
for i, k in T.grid(3, 4):
  with T.block("S"):
    with T.init(): S[vi] = 0.0
    S[vi] = S[vi] + A[vi, vk]
for x in range(3):
  with T.block("D"): D[vx] = A[vx, 0] * 2.0
for y in range(3):
  with T.block("C"): C[vy] = S[vy] + {D[vy]|A[vy, 0]}
""",
    "a reader of a sum, and then of its row": """
S = T.alloc_buffer((3,))
for i, k in T.grid(3, 4):
  with T.block("S"):
    with T.init(): S[vi] = 0.0
    S[vi] = S[vi] + A[vi, vk]
for x, y in T.grid(3, 4):
  with T.block("C"): C[vx, vy] = A[vx, vy] - S[vx]
""",
    "a tail of two tiles": """
for o, i in T.grid(2, 3):
  with T.block("B"):
    vi = T.axis.spatial(4, o * 3 + i)
    T.where(o * 3 + i < 4)
    B[vi] = A[vi] + 1.0
""",
    "a sum with a tail": """
for i, o, k in T.grid(2, 2, 3):
  with T.block("C"):
    vi = T.axis.spatial(2, i)
    vk = T.axis.reduce(4, o * 3 + k)
    T.where(o * 3 + k < 4)
    with T.init(): C[vi] = 0.0
    C[vi] = C[vi] + A[vi, vk]
""",
    "a part that is overwritten": """
for i in range(4):
  with T.block("B"): B[vi] = A[vi]
for k in range(2):
  with T.block("part"): B[vk + 1] = A[vk] * 2.0
""",
    "a triangle that begins at its diagonal": """
for x, y in T.grid(4, 4):
  with T.block("copy"): B[vx, vy] = A[vx, vy]
for i in range(1, 4):
  for j in range(i, 4):
    with T.block("B"):
      vi = T.axis.spatial((1, 4), i)
      vj = T.axis.spatial(4, j)
      B[vi, vj] = B[vi - 1, vj] + 1.0
""",
    "two blocks that change each other's input": """
for x in range(5):
  with T.block("copy"): B[vx] = A[vx]
  with T.block("other"): C[vx] = A[vx] * 2.0
for i in range(4):
  with T.block("B"): B[vi + 1] = C[vi] + B[vi + 1]
  with T.block("C"): C[vi + 1] = B[vi] + C[vi + 1]
""",
    "two readers, one after the other": """
B = T.alloc_buffer((4,))
C = T.alloc_buffer((4,))
for i in range(4):
  with T.block("B"): B[vi] = A[vi] * 2.0
for j in range(4):
  with T.block("C"): C[vj] = B[vj] + 1.0
for k in range(4):
  with T.block("D"): D[vk] = B[vk] - C[vk]
""",
    "every second element": """
B = T.alloc_buffer((6,))
for i in range(3):
  with T.block("B"): B[vi * 2] = A[vi]
for k in range(3):
  with T.block("C"): C[vk] = B[vk * 2]
""",
    "a row that is read in two iterations": """
B = T.alloc_buffer((4, 3))
for i in range(4):
  for j in range(3):
    with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
  for k in range(3):
    with T.block("C"): C[vi, vk] = B[vi // 2, vk]
""",
    "an update of what another nest begins": """
for x in range(3):
  with T.block("zero"): B[vx] = 0.0
for i, k in T.grid(3, 4):
  with T.block("B"): B[vi] = B[vi] + A[vi, vk]
""",
    "a sum beside its input": """
B = T.alloc_buffer((3, 4))
for i in range(3):
  for j in range(4):
    with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
  for k in range(4):
    with T.block("C"):
      with T.init(): C[vi] = 0.0
      C[vi] = C[vi] + {B|A}[vi, vk]
""",
    "windows of a row that slides": """
B = T.alloc_buffer((6,))
for i in range(4):
  for j in range(3):
    with T.block("B"):
      v = T.axis.spatial(6, i + j)
      B[v] = A[v] * 2.0
  with T.block("C"): C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
""",
    "windows of a row that changes": """
X = T.alloc_buffer((6,))
Y = T.alloc_buffer((6,))
B = T.alloc_buffer((6,))
for x in range(6):
  with T.block("X"): X[vx] = A[vx]
for i in range(4):
  for j in range(3):
    with T.block("B"):
      v = T.axis.spatial(6, i + j)
      B[v] = X[v] * 2.0
  with T.block("C"): C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
  with T.block("change"): {X|Y}[vi + 1] = 7.0
""",
    "a sum in reverse": """
for x in range(2):
  with T.block("seven"): B[vx] = 7.0
for i, k in T.grid(2, 4):
  with T.block("B"):
    vi = T.axis.spatial(2, i)
    vk = T.axis.reduce(4, {3 - k|k})
    with T.init(): B[vi] = 0.0
    B[vi] = B[vi] + A[vi, vk]
""",
    "a sum in one loop": """
for f in range(8):
  with T.block("B"):
    vi = T.axis.spatial(2, f // 4)
    vk = T.axis.reduce(4, f % 4)
    with T.init(): B[vi] = 0.0
    B[vi] = B[vi] + A[vi, vk]
""",
    "the first of the largest": """
A: T.Buffer((4, 4), "int32")
B: T.Buffer((4,), "int32")
C: T.Buffer((4,), "int32")
for i, o, k in T.grid(4, 2, 2):
  with T.block("B"):
    vi = T.axis.spatial(4, i)
    vk = T.axis.reduce(4, o * 2 + k)
    with T.init():
      B[vi] = -1
      C[vi] = -1000
    at: T.int32 = T.Select(C[vi] >= A[vi, vk], B[vi], vk)
    top: T.int32 = T.Select(C[vi] >= A[vi, vk], C[vi], A[vi, vk])
    B[vi] = at
    C[vi] = top
""",
    "windows of what their position decides": """
B = T.alloc_buffer((6,))
for i in range(4):
  for j in range(3):
    with T.block("B"):
      vi = T.axis.spatial(4, i)
      v = T.axis.spatial(6, i + j)
      B[v] = A[v]{ * T.cast(vi, "float32")|}
  with T.block("C"): C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
""",
    "a result of which another nest reads a part": """
for i in range(4):
  with T.block("B"): B[vi] = A[vi] * 2.0
for k in range(2):
  with T.block("C"): C[vk] = {B|A}[vk] + 1.0
""",
    "a result that is written before, from what is written earlier": """
X = T.alloc_buffer((4,))
for i in range(4):
  with T.block("X"): X[vi] = A[vi] * 2.0
for j in range(4):
  with T.block("first"): {B|C}[vj] = A[vj]
for k in range(4):
  with T.block("B"): B[vk] = X[vk] + 1.0
""",
    "two temporaries that meet": """
B = T.alloc_buffer((4,))
C = T.alloc_buffer((4,))
for i in range(4):
  with T.block("B"): B[vi] = A[vi] * 2.0
for j in range(4):
  with T.block("C"): C[vj] = A[vj] + 1.0
for k in range(4):
  with T.block("D"): D[vk] = B[vk] + {C|A}[vk]
""",
    "an update of what the same block stores": """
for i in range(4):
  with T.block("B"):
    B[vi] = A[vi]
    B[vi] = B[vi] + 1.0
""",
    "threads, and a reader of what another one writes": """
B = T.alloc_buffer((4, 2))
for i in T.thread_binding(4, thread="threadIdx.x"):
  for j in range(2):
    with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
for k, l in T.grid(4, 2):
  with T.block("C"): C[vk, vl] = B[3 - vk, vl]
""",
    "a padded row": """
for i in range(6):
  with T.block("B"): B[vi] = T.if_then_else(vi >= 1 and vi < 5, A[vi - 1], 0.0)
""",
}


@cache
def pinned(*, independent: bool = False) -> dict[str, PrimFunc]:
    """Return the programs by name; with `independent`, their twins without the dependence."""
    chosen = {name: _ALTERNATIVES.sub(r"\2" if independent else r"\1", text) for name, text in PINNED.items()}
    return {name: program_of(chosen[name]) for name, text in PINNED.items() if not independent or text != chosen[name]}
