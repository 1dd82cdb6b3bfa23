"""Programs in the spellings of TVM v0.8 to v0.23, as tutorials and documentation write them: text by name."""

from __future__ import annotations

from textwrap import dedent


def _func(signature: str, body: str, above: str = "") -> str:
    lines = "\n".join("    " + line if line else line for line in dedent(body).strip("\n").splitlines())
    return f"{dedent(above)}@T.prim_func\ndef main({signature}) -> None:\n{lines}\n"


_A = 'A: T.Buffer((16, 16), "float32")'
_AB = f'{_A}, B: T.Buffer((16, 16), "float32")'
_POINTWISE = """
for i, j in T.grid(16, 16):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = {value}
"""


def _value(value: str, signature: str = _AB) -> str:
    return _func(signature, _POINTWISE.format(value=value))


# Programs that run.
RUNNABLE: dict[str, str] = {
    "handles of v0.8, T.match_buffer with a list, T.serial from a start": _func(
        "a: T.handle, b: T.handle",
        """
        T.func_attr({"global_symbol": "main", "tir.noalias": True, "note": {"inner": [1, {"deep": "x"}], "on": True}})
        A = T.match_buffer(a, [16, 16], dtype="float32")
        B = T.match_buffer(b, [16, 16])
        for i in T.serial(0, 16):
            for j in range(0, 16):
                with T.block("B"):
                    vi = T.axis.S(16, i)
                    vj = T.axis.S((0, 16), j)
                    T.reads([A[vi, vj]])
                    T.writes([B[vi, vj]])
                    B[vi, vj] = A[vi, vj] * 2.0
        """,
    ),
    "handles with a type and a scope": _func(
        'a: T.handle("float32", "global"), b: T.Ptr[T.float32], c: T.Ptr(T.float32, "global")',
        """
        A = T.match_buffer(a, (16,), "float32", scope="")
        B = T.buffer_decl((16,), "float32", data=b)
        C = T.decl_buffer((16,), "float32", data=c)
        for i in range(16):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi]
                C[vi] = A[vi]
        """,
    ),
    "buffers as subscripts of v0.9": _func(
        'A: T.Buffer[(16, 16), "float32"], B: T.Buffer[(16, 16)]', _POINTWISE.format(value="A[vi, vj]")
    ),
    "a buffer of a plain number": _func(
        'A: T.Buffer(16, "float32"), B: T.Buffer((16), "float32")',
        """
        for i in T.serial(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi]
        """,
    ),
    "attributes of buffers": _func(
        'A: T.Buffer((16, 16), "float32", strides=["s0", "s1"]), '
        'B: T.Buffer((16, 16), "float32", align=128, offset_factor=1)',
        _POINTWISE.format(value="A[vi, vj]"),
    ),
    "scope given as nothing": _func(
        _AB,
        """
        C = T.alloc_buffer((16, 16), "float32", scope="")
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj]
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = C[vi, vj]
        """,
    ),
    "functions with the dtype of their result": _value(
        'T.exp(A[vi, vj], dtype="float32") + T.sqrt(T.floor(T.abs(A[vi, vj], dtype="float32"), dtype="float32"), '
        'dtype="float32") + T.max(T.tanh(A[vi, vj], dtype="float32"), T.float32(0), dtype="float32")'
    ),
    "a condition that is likely": _func(
        _AB,
        """
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                if T.likely(vi * 16 + vj < 200, dtype="bool"):
                    B[vi, vj] = A[vi, vj]
                else:
                    B[vi, vj] = T.if_then_else(vi > 3, A[vi, vj], 0.0, dtype="float32")
        """,
    ),
    "integers and floats mixed": _value("A[vi, vj] * 2 + vi * 0.5 + 1 / (vj + 1.0) - (vi + vj) * 1.5"),
    "functions of classes of floats": _value(
        'T.Select(T.isnan(A[vi, vj], dtype="bool"), T.float32(0), T.min(A[vi, vj], T.infinity("float32")))'
        ' + T.max_value("float32") * T.float32(0) + T.min_value("int32") * 0.0'
    ),
    "values that become wider where they are stored": _func(
        'A: T.Buffer((16,), "int8"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "float32")',
        """
        for i in range(16):
            with T.block("B"):
                vi = T.axis.S(16, i)
                B[vi] = A[vi] * T.int8(2)
                C[vi] = A[vi] < T.int8(3)
        """,
    ),
    "reinterpret, old and new": _value(
        'T.reinterpret(T.reinterpret("int32", A[vi, vj]), dtype="float32") + T.reinterpret(T.int32(0), "float32")'
    ),
    "integer functions": _func(
        'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")',
        """
        for i in range(16):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = T.truncmod(A[vi], 5) + T.floormod(A[vi], 5) + T.truncdiv(A[vi], 3) + T.floordiv(A[vi], 3) \\
                    + T.shift_left(A[vi], 2) + T.shift_right(A[vi], 1) + T.bitwise_and(A[vi], 7) \\
                    + T.bitwise_or(A[vi], 8) + T.bitwise_xor(A[vi], 1) + T.bitwise_not(A[vi]) \\
                    + T.popcount(A[vi], dtype="int32") + T.indexmod(A[vi], 4) + T.ceildiv(vi, 4) \\
                    + T.q_multiply_shift(A[vi], 1395864371, 31, -2, dtype="int32") + (A[vi] << 1) + ~A[vi]
        """,
    ),
    "constants with a dtype by name": _func(
        'A: T.Buffer((4,), "int64")',
        """
        for i in T.grid(4):
            with T.block("A"):
                vi = T.axis.remap("S", [i])
                A[vi] = T.IntImm("int64", 3) + T.Cast("int64", vi) + T.int64(5) + T.cast(vi, dtype="int64")
        """,
    ),
    "constants allocated": _func(
        'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")',
        """
        table = T.allocate_const([0, 1, 2, 3, 4, 5, 6, 7], "float32", [8])
        weights = T.Buffer(shape=[8], dtype="float32", data=table)
        for i in range(8):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] + weights[vi]
        """,
    ),
    "thread axes that the environment names": _func(
        'A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")',
        """
        bx = T.env_thread("blockIdx.x")
        tx = T.env_thread("threadIdx.x")
        T.launch_thread(bx, 4)
        with T.launch_thread(tx, 32):
            with T.block("B"):
                vi = T.axis.spatial(128, bx * 32 + tx)
                B[vi] = A[vi] + 1.0
        """,
    ),
    "loops with annotations, of every kind": _func(
        'A: T.Buffer((4, 4, 4, 4), "float32"), B: T.Buffer((4, 4, 4, 4), "float32")',
        """
        for i in T.parallel(0, 4, annotations={"pragma_x": 1}):
            for j in T.serial(4, annotations={"pragma_unroll_explicit": T.bool(False)}):
                for k in T.unroll(4):
                    for l in T.vectorized(0, 4):
                        with T.block("B"):
                            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                            T.block_attr({"key": "value", "list": [1, 2], "nested": {"a": T.int64(1)}})
                            B[vi, vj, vk, vl] = A[vi, vj, vk, vl]
        """,
    ),
    "axes of every kind, several conditions": _func(
        f'{_A}, B: T.Buffer((16,), "float32"), n: T.int32',
        """
        for i, k in T.grid(16, 16):
            with T.block("B"):
                vi = T.axis.S(16, i)
                vk = T.axis.R(16, k)
                T.where(i < 12 and k >= 0 and i + k < n)
                T.reads(A[vi, vk])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        for i in T.serial(16):
            with T.block("scan"):
                vi = T.axis.scan(16, i)
                B[vi] = B[vi] * T.float32(0.5)
        """,
    ),
    "a let of v0.8, T.let as expression, T.meta_var": _func(
        'A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")',
        """
        x = T.var("float32")
        half = T.meta_var(0.5)
        for i in range(16):
            with T.block("B"):
                vi = T.axis.S(16, i)
                with T.let(x, A[vi] + 1.0):
                    B[vi] = x * half + T.Let(y * y, where={y: x})
        """,
    ),
    "T.evaluate, pass, a docstring, a store as call": _func(
        _AB,
        """
        \"\"\"What it does.\"\"\"
        T.evaluate(0)
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.buffer_store(B, A[vi, vj], [vi, vj])
        """,
    ),
    "a view with strides and offset as variables": _func(
        _AB,
        """
        for i, j in T.grid(4, 4):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
                T.writes(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
                s0 = T.int32()
                s1 = T.int32()
                X = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), "float32", strides=[s0, s1],
                                   offset_factor=1)
                Y = T.match_buffer(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), offset_factor=1)
                for k, l in T.grid(4, 4):
                    Y[k, l] = X[k, l] + 1.0
        """,
    ),
    "symbolic sizes of v0.8": _func(
        "a: T.handle, b: T.handle, n: T.int32",
        """
        m = T.var("int32")
        A = T.match_buffer(a, [m, n])
        B = T.match_buffer(b, [m, n], "float32")
        for i, j in T.grid(m, n):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        """,
    ),
}

_TILE = """
for i, j in T.grid(1, 1):
    with T.block("tile"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[0:16, 0:16])
        T.writes(B[0:16, 0:16])
        {body}
"""


def _foreign(body: str) -> str:
    lines = dedent(body).strip("\n").replace("\n", "\n        ")
    return _func(_AB, _TILE.format(body=lines))


# Programs that are scheduled and not run, each with the operation that is refused.
CARRIED: dict[str, tuple[str, str]] = {
    "an extern function on pointers": (
        "call_extern",
        _foreign('T.evaluate(T.call_extern("int32", "gemv_update", A.access_ptr("r"), B.access_ptr("w"), 16, 16, 1))'),
    ),
    "the dtype of a call behind its arguments": (
        "call_extern",
        _foreign('T.evaluate(T.call_extern("update", A.data, B.access_ptr("rw", offset=16), dtype="int32"))'),
    ),
    "a call as a value": (
        "call_pure_extern",
        _foreign('for k in range(16):\n    B[k, 0] = T.call_pure_extern("float32", "tanhf", A[k, 0])'),
    ),
    "pointers as TVM writes them out": (
        "tvm_access_ptr",
        _foreign(
            'T.evaluate(T.tvm_access_ptr(T.type_annotation(dtype="float32"), B.data, B.elem_offset, 256, 2, '
            'dtype="handle"))'
        ),
    ),
    "the address of an element": (
        "call_extern",
        _foreign('T.call_extern("int32", "copy", T.address_of(A[vi, vj]), T.address_of(B[vi, vj], dtype="handle"))'),
    ),
    "matrix fragments": (
        "tvm_load_matrix_sync",
        _foreign(
            """
            T.evaluate(T.tvm_fill_fragment(B.data, 16, 16, 16, 0, T.float32(0), dtype="handle"))
            T.evaluate(T.tvm_load_matrix_sync(B.data, 16, 16, 16, B.elem_offset // 256,
                                              A.access_ptr("r"), 16, "row_major", dtype="handle"))
            T.evaluate(T.tvm_mma_sync(B.data, 0, A.data, 0, A.data, 0, B.data, 0))
            """
        ),
    ),
    "instructions of PTX": (
        "ptx_ldmatrix",
        _foreign(
            """
            T.evaluate(T.ptx_ldmatrix("float32", False, 4, ".b16", B.data, 0, A.access_ptr("r"), vi * 8))
            T.evaluate(T.ptx_mma("m16n8k8", "row", "col", "fp16", "fp16", "fp32", A.data, 0, A.data, 0, B.data, 0,
                                 False, dtype="float32"))
            T.evaluate(T.ptx_cp_async("float32", B.data, 0, A.data, 0, 16))
            T.evaluate(T.ptx_commit_group())
            T.evaluate(T.ptx_wait_group(0))
            T.evaluate(T.mma_store(16, 16, B.access_ptr("w"), A.data, 0, 16, dtype="float32"))
            """
        ),
    ),
    "instructions of LLVM": (
        "call_llvm_pure_intrin",
        _foreign(
            """
            for k in range(16):
                B[k, 0] = T.call_llvm_pure_intrin(T.llvm_lookup_intrinsic_id("llvm.fabs"), T.uint32(1), A[k, 0],
                                                  dtype="float32")
            """
        ),
    ),
    "a packed function": ("call_packed", _foreign('T.call_packed("tvm.contrib.sort", A.data, B.data)')),
    "an assumption in an expression": (
        "assume",
        _foreign("if T.assume(A[0, 0] == T.float32(0)):\n    B[0, 0] = A[0, 0]"),
    ),
    "a view and its pointer": (
        "call_extern",
        _foreign(
            """
            s = T.int32()
            X = T.match_buffer(A[0:16, 0:16], (16, 16), "float32", strides=[s, 1], offset_factor=16)
            Y = T.match_buffer(B[0:16, 0:16], (16, 16), "float32", offset_factor=16)
            T.call_extern("int32", "copy", X.access_ptr("r"), X.strides[0], X.elem_offset, Y.access_ptr("w", extent=4))
            """
        ),
    ),
}
