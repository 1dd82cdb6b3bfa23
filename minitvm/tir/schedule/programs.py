"""Small programs on which several schedule primitives refuse bad calls (`Primitive.refuses`), or which tests use.

A program that only one file needs is in that file, unless the file is long. All programs are abbreviated TVMScript, as
in the docstrings of primitives (see `examples`). They are stored as text, so importing a primitive does not parse any
of them. A program has a head if an error shows the whole function.
"""

_PRODUCT = """
    for i, j, k in T.grid({m}, {n}, 4):
        with T.block("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init(): C[v_i, v_j] = 0.0
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
"""


def _matmul(m: int, n: int) -> str:
    buffers = f"A: T.Buffer(({m}, 4)), B: T.Buffer((4, {n})), C: T.Buffer(({m}, {n}))"
    return f'def main({buffers}):\n    T.func_attr({{"tir.noalias": True}})' + _PRODUCT.format(m=m, n=n)


MATMUL = _matmul(8, 6)
HUGE_MATMUL = _matmul(70000, 70000)
SYMBOLIC_MATMUL = """
def main(a: T.handle, B: T.Buffer((4, 6)), c: T.handle):
    m = T.int32(is_size_var=True)
    A = T.match_buffer(a, (m, 4))
    C = T.match_buffer(c, (m, 6))
""" + _PRODUCT.format(m="m", n=6)

# ---- flows from block to block -------------------------------------------------------------------------------------

CHAIN = """
def main(A: T.Buffer((10, 6)), D: T.Buffer((8, 6))):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((10, 6))
    C = T.alloc_buffer((8, 6))
    for i, j in T.grid(10, 6):
        with T.block("B"): B[v_i, v_j] = A[v_i, v_j] * 2.0
    for i, j in T.grid(8, 6):
        with T.block("C"): C[v_i, v_j] = B[v_i, v_j] + B[v_i + 1, v_j] + B[v_i + 2, v_j]
    for i, j in T.grid(8, 6):
        with T.block("D"): D[v_i, v_j] = C[v_i, v_j] + 1.0
"""
TWO_CONSUMERS = """
def main(A: T.Buffer((8,)), D: T.Buffer((8,))):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"): B[v_i] = A[v_i] * 2.0
    for i in range(8):
        with T.block("C"): C[v_i] = B[v_i] + 1.0
    for i in range(8):
        with T.block("D"): D[v_i] = B[v_i] - C[v_i]
"""
TWO_ROWS = """
def two_rows(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(8, 4):
        with T.block("C"): C[vi, vj] = B[7 - vi, vj]
"""
WRITTEN_TWICE = """
def written_twice(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"): B[vi] = A[vi]
    for i in range(8):
        with T.block("again"): B[vi] = A[vi] + 1.0
    for i in range(8):
        with T.block("C"): C[vi] = B[vi]
"""
OVERWRITTEN = """
def overwritten(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"): B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("A"): A[vi] = 0.0
    for i in range(8):
        with T.block("C"): C[vi] = B[vi]
"""
SPARSE = """
B = T.alloc_buffer((8,))
for i in range(4):
    with T.block("B"): B[vi * 2] = A[vi]
for i in range(4):
    with T.block("C"): C[vi] = B[vi * 2]
"""
ROWS_IN_TURN = """
B = T.alloc_buffer((4, 8))
for i in range(4):
    for j in range(8):
        with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    for j in range(8):
        with T.block("C"): C[vi, vj] = B[vi // 2, vj]
"""
TWICE_IN_A_NEST = """
for i in range(8):
    with T.block("B"): B[vi] = A[vi] * 2.0
    with T.block("C"): C[vi] = A[vi] + 1.0
"""

# ---- one block -----------------------------------------------------------------------------------------------------

SCALED = """
for i, j in T.grid(8, 8):
    with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
"""
STRIDED = """
B: T.Buffer((4, 4))
A: T.Buffer((4, 4), strides=(8, 1))
for i, j in T.grid(4, 4):
    with T.block("B"): B[vi, vj] = A[vi, vj]
"""
EXCHANGED = """
S = T.alloc_buffer((3,), scope="shared")
for b in T.thread_binding(4, thread="blockIdx.x"):
    for t in T.thread_binding(3, thread="threadIdx.x"):
        with T.block("S"):
            S[vt] = A[vb, vt]
        with T.block("B"): B[vb, vt] = S[2 - vt]
"""
TRIANGLE = """
for i in range(8):
    for j in range(i + 1):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = 1.0
"""
TAIL = """
A: T.Buffer((10,))
for i_0, i_1 in T.grid(3, 4):
    with T.block("A"):
        vi = T.axis.spatial(10, i_0 * 4 + i_1)
        T.where(i_0 * 4 + i_1 < 10)
        A[vi] = 1.0
"""
OPAQUE = """
for i, j in T.grid(4, 4):
    with T.block("A"):
        vi, vj = T.axis.remap("OO", [i, j])
        A[vi, vj] = 1.0
"""

# ---- blocks inside blocks, below conditions and loops of threads, and blocks that use loops themselves ------------

NESTED = """
for i in range(8):
    with T.block("outer"):
        vi = T.axis.spatial(8, i)
        for j in range(8):
            with T.block("inner"): C[vi, vj] = A[vi, vj]
"""
THROUGH_A_VIEW = """
for i in range(8):
    with T.block("row"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi, 0:8])
        T.writes(B[vi, 0:8])
        row = T.match_buffer(A[vi, 0:8], (8,))
        for j in range(8):
            with T.block("B"): B[vi, vj] = row[vj] * 2.0
"""
CONDITION_ON_INPUT = """
for i in range(8):
    if A[i] > 0.0:
        with T.block("B"): B[vi] = A[vi] * 2.0
"""
LOOP_IN_THE_BODY = """
B = T.alloc_buffer((16,))
for i in range(16):
    with T.block("B"): B[vi] = X[i]
for i in range(16):
    with T.block("C"): C[vi] = B[vi] * X[i]
"""
LOOP_IN_A_SUM = """
for i, k in T.grid(16, 4):
    with T.block("C"):
        with T.init(): C[vi] = 0.0
        C[vi] = C[vi] + X[i, vk]
"""

# ---- reductions ----------------------------------------------------------------------------------------------------

ROW_SUMS = """
for i, k_0, k_1 in T.grid(8, 2, 4):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        vk = T.axis.reduce(8, k_0 * 4 + k_1)
        with T.init(): C[vi] = 0.0
        C[vi] = C[vi] + A[vi, vk]
"""
WATCHED_SUM = """
for i, k in T.grid(8, 4):
    with T.block("B"):
        with T.init(): B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
    with T.block("C"): C[vi, vk] = B[vi]
"""
FUSED_SUM = """
for f in range(32):
    with T.block("B"):
        vi = T.axis.spatial(8, f // 4)
        vk = T.axis.reduce(4, f % 4)
        with T.init(): B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
"""
SUM_FROM_TWO = """
for k in range(2, 8):
    with T.block("B"):
        with T.init(): B[0] = 0.0
        B[0] = B[0] + A[vk]
"""
ALTERNATING_SUM = """
for k in range(8):
    with T.block("B"):
        with T.init(): B[0] = 0.0
        B[0] = A[vk] - B[0]
"""
TRIANGLE_SUMS = """
for i in range(8):
    for k in range(i + 1):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init(): B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
"""
LATE_SLOTS = """
for k, j in T.grid(4, 4):
    with T.block("B"):
        T.where(j <= k * 2)
        with T.init(): B[0] = 0.0
        B[0] = B[0] + A[vk, vj]
"""
AFTER_PRODUCER = """
B = T.alloc_buffer((8, 4))
for i in range(8):
    for j in range(4):
        with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    for k in range(4):
        with T.block("C"):
            with T.init(): C[vi] = 0.0
            C[vi] = C[vi] + B[vi, vk]
"""
BACKWARD_SUM = """
for k in range(8):
    with T.block("B"):
        vk = T.axis.reduce(8, 7 - k)
        with T.init(): B[0] = 0.0
        B[0] = B[0] + A[vk]
"""
SHORT_ROWS = """
for k in range(8):
    for i in range(8 - k):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init(): C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""
NO_TERMS = """
def no_terms(A: T.Buffer((7, 0)), C: T.Buffer((7,))):
    for i, k in T.grid(7, 0):
        with T.block("C"):
            with T.init(): C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""
ADDED_TO = """
for i, j in T.grid(4, 8):
    with T.block("B"): B[vi] = B[vi] + A[vi, vj]
"""
FIRST_OF_EQUALS = """
R_v0: T.Buffer((), "int32")
R_v1: T.Buffer(())
for k in range(12):
    with T.block("R"):
        v_k = T.axis.reduce(12, k)
        with T.init():
            R_v0[()] = -1
            R_v1[()] = T.min_value("float32")
        v_R_v0: T.int32 = T.Select(R_v1[()] >= A[v_k], R_v0[()], v_k)
        v_R_v1: T.float32 = T.Select(R_v1[()] >= A[v_k], R_v1[()], A[v_k])
        R_v0[()] = v_R_v0
        R_v1[()] = v_R_v1
"""
_WINDOWS = """
B = T.alloc_buffer((10,))
for i in {loop}:
    for j in range(3):
        with T.block("B"):
            v = T.axis.spatial(10, i + j)
            B[v] = A[v]
    with T.block("C"): C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
"""
CONCURRENT_WINDOWS = _WINDOWS.format(loop="T.parallel(8)")
CHANGING_INPUT = _WINDOWS.format(loop="range(8)") + "    with T.block('A'): A[vi + 1] = 0.0"
WINDOWS_OF_DATA = """
B = T.alloc_buffer((10,))
for i in range(8):
    for j in range(3):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            v = T.axis.spatial(10, i + j)
            B[v] = A[v] * T.Cast("float32", vi)
    with T.block("C"): C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
"""
LOAD_AND_USE = """
S = T.alloc_buffer((4,))
for i in range(8):
    for j in range(4):
        with T.block("load"): S[vj] = A[vi, vj]
    for j in range(4):
        with T.block("use"): C[vi, vj] = S[vj] * 2.0
"""
SUM_OF_FOUR = """
with T.block("root"):
    T.reads(A[0:4])
    T.writes(C[0])
    with T.init(): C[0] = 0.0
    for k in range(4):
        with T.block("sum"): C[0] = C[0] + A[vk]
"""
