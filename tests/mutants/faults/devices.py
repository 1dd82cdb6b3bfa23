"""Faults in kernels for OpenCL devices, and in how they are launched."""

from tests.codegen.test_random_kernels import pieces_mean_the_same
from tests.machines.simd.codegen.test_alignment import whole_vectors_lie_at_multiples_of_their_size
from tests.machines.simd.transform.test_vector_reductions import CHECKS as WIDE_CHECKS
from tests.test_conversions import rounded_on_a_device

from ..patch import Faults
from ..seeded import (
    COPIES,
    IN_PYTHON,
    MASKS_IN_PYTHON,
    ON_A_DEVICE,
    ON_CUDA_GRIDS,
    ON_GRIDS,
    PAIRS,
    PAIRS_IN_PYTHON,
    PAIRS_ON_A_DEVICE,
    PRETENDED,
    REFUSED,
    UNSIGNED_ON_A_DEVICE,
    seeded,
)
from ..seeded import MASKS_ON_A_DEVICE as MASKED
from ..streams import by_hand

IN_PIECES = seeded("vectors in pieces", lambda k: pieces_mean_the_same((2, 4)[k]), 2)
WIDE = seeded("sums in several vectors", lambda k: WIDE_CHECKS[k](), len(WIDE_CHECKS))

EXPRESSIONS = Faults(
    "opencl expressions", "minitvm.machines.opencl.codegen.expressions", [ON_GRIDS, MASKED, ON_A_DEVICE]
)
EXPRESSIONS.edit("integers of 16 bits are numbers of any half float", "OpenCLExpressions.halved", "source.bits <= 8",
                 "source.bits <= 16", by=[by_hand("halves on a device", rounded_on_a_device)])  # fmt: skip
EXPRESSIONS.edit(
    "a mask's base is forgotten", "OpenCLExpressions.first_lanes", " - {atom(self.index(base))}", "", by=[MASKED]
)
REWRITES = Faults("rewrites of operations on devices", "minitvm.codegen.decompose", [MASKED])
REWRITES.edit("quotients of numbers below zero are truncated", "_truncated", "or low is None or low < 0", "")
WALK = Faults("expressions on devices", "minitvm.codegen.expressions", [MASKED])
WALK.edit("vectors with a step are contiguous", "Expressions.contiguous", "and is_const(x.stride, 1)", "")
PIECES = Faults("vectors in pieces", "minitvm.codegen.vector_pieces", [WIDE])
PIECES.edit("all pieces are the first one", "_Pieces.piece", "ex.const(k * n, base.dtype)", "ex.const(0, base.dtype)")
PIECES.edit("maxima are added up", "_Pieces.narrow", "map(_COMBINED[e.op]", 'map(_COMBINED["vector_reduce_add"]')
PIECES.edit(
    "a piece is stored before others are read",
    "_Pieces.store",
    "ex.structural_equal(load.indices[-1], at)",
    "True",
    by=[IN_PIECES],
)
PIECES.edit(
    "a shuffle picks from the first piece alone",
    "_Pieces.piece",
    "e.indices[k * n : (k + 1) * n]",
    "e.indices[:n]",
    by=[IN_PIECES],
)
LIBRARY = Faults("opencl library", "minitvm.machines.opencl.codegen.library", [ON_A_DEVICE, MASKED])
LIBRARY.edit("the remainder has the dividend's sign", "_floormod", "r + b : r);", "r : r);")
LIBRARY.edit("small integers do not wrap", "added", "dtype.bits < 32 and dtype.lanes == 1", "False")
PAIRED = Faults("opencl library, products of pairs", "minitvm.machines.opencl.codegen.library", [PAIRS_ON_A_DEVICE])
PAIRED.edit("subnormal numbers are numbers", "_flushed", "& 0x7f800000u) == 0", "& 0x7fffffffu) == 0")
PAIRED.edit("the high halves are multiplied twice", "_dot2", "if low else", "if False else")
TYPES = Faults("opencl types", "minitvm.machines.opencl.codegen.types", [UNSIGNED_ON_A_DEVICE, ON_A_DEVICE])
TYPES.edit("unsigned integers are signed", "_SCALARS", 'f"u{name}" for', "name for")
TYPES.edit("doubles are floats", "_SCALARS", '"float64": "double"', '"float64": "float"')
STATEMENTS = Faults("opencl statements", "minitvm.machines.opencl.codegen.statements", [ON_GRIDS, ON_A_DEVICE])
STATEMENTS.edit("threads do not wait", "_OpenCL.evaluate", 'stmt.value.op == "tvm_storage_sync"', "False")
STATEMENTS.edit("a block's threads are its blocks", "_OpenCL.thread", "'get_group_id' if", "'get_local_id' if")
STATEMENTS.edit(
    "a share of a parallel loop is one short",
    "_OpenCL.share",
    "share.format(' + 1')}",
    "share.format(' + 1')} - 1",
)
LAUNCH = Faults("programs on devices", "minitvm.runtime.device.bound", [PRETENDED, ON_GRIDS])
LAUNCH.edit("threads of blocks are blocks", "BoundProgram._shape", "checked_shape(self.device, name, extents)",
            "checked_shape(self.device, name, [*extents[3:], *extents[:3]])")  # fmt: skip
LAUNCH.edit("outputs are not copied back", "BoundProgram._copy_out",
            "self.device.read(as_bytes(array_at(array, spec.dtype, shape)), place)", "pass")  # fmt: skip
LAUNCH.edit("launches are kept for other memory", "BoundProgram._new_memory", "if self._own[number]:", "if True:")
LAUNCH.edit("memory of an input is another's", "BoundProgram._chosen", "self._memories.pop(key, None)",
            "next(iter(self._memories.values()), None)")  # fmt: skip
LAUNCH.edit("what lies askew is used in place", "BoundProgram._address",
            "array.address if self.device.is_aligned(array.buffer) else 0", "array.address")  # fmt: skip
LAUNCH.edit("what a function does not write is lost", "BoundProgram._new_memory", "if x.calling or spec.inout:",
            "if spec.inout and False:")  # fmt: skip
LAUNCH.edit("of a mixed network only graphs run", "BoundProgram._parts_in",
            "[*_each(range(done, stretch.start)), Stretch(record)]", "[Stretch(record)]")  # fmt: skip
ARRAYS = Faults("arrays on devices", "minitvm.runtime.device.arrays", [PRETENDED])
ARRAYS.edit("memory comes back while it is used", "Pool.array", "made._free = free",
            "free.append(made.buffer)")  # fmt: skip
ARRAYS.edit("any device is ours", "adopted", "where != device.dlpack or isinstance(value, DeviceArray)", "False")
ARRAYS.edit("rows may have gaps", "adopted", "if not foreign.is_contiguous:", "if False:")
SHARED = Faults("memory by DLPack", "minitvm.runtime.dlpack", [PRETENDED])
SHARED.edit("an offset is forgotten", "described", "(tensor.data or 0) + tensor.byte_offset", "tensor.data or 0")
SHARED.edit("bits are bytes", "_dtype_fields", "return _CODES[kind], int(dtype[len(kind) :])", "return _CODES[kind], 8")
KEPT = Faults("states on devices", "minitvm.runtime.device.device_states", [PRETENDED])
KEPT.edit("what a failed run left is used", "States.lose", "state.is_known = False", "pass")
KEPT.edit("a reset is not written", "DeviceState.__setitem__", "if array.size:", "if False:")
AT_HAND = Faults("the device at hand", "minitvm.machines.cuda.runtime.devices", [PRETENDED])
AT_HAND.edit("a device that is named is another one", "at_hand", "target.arch or", "")
OPTIONS = Faults("options beside the device at hand", "minitvm.target.target", [PRETENDED])
OPTIONS.edit("they are dropped", "Target.on", ", **options}", "}")
MEMORIES = Faults("copies between memories", "minitvm.link.copies", [COPIES])
MEMORIES.edit("what a loop's iteration left is not looked at", "_Copies.of",
              "number in ends or isinstance(step, LoopStep)", "isinstance(step, LoopStep)")  # fmt: skip
MEMORIES.edit("a loop finds copies of what was before it", "_Copies.of", "number in ends or isinstance(step, LoopStep)",
              "number in ends")  # fmt: skip
MEMORIES.edit("results stay in the other memory", "_Copies.of", "self.bring_back(twin)", "pass")
MEMORIES.edit("a step finds what a value was before", "_Copies.before", "self.bring_back(twin)", "pass")
MEMORIES.edit("copies outlive a change of the value", "_Copies.written", "not _overlap(t.value, slot)", "True")
MEMORIES.edit("what a kernel does not write is lost", "_Copies.twin", "if not call.first[number]:",
              'if not call.first[number] and self.kernels[call.kernel].params[number].access != "w":')  # fmt: skip
MEMORIES.edit("parts are strangers", "_overlap", "end > start", "False")
MEMORIES.edit("loops end where they did", "_Copies.of", "end=begins[step.end]", "end=step.end")
MEMORIES.edit("every value lies on the device", "_place", "(slot.memory,) = its", "pass")
ON_BOTH = Faults("the host's part of a program", "minitvm.runtime.device.bound", [PRETENDED])
ON_BOTH.edit("a kernel does not wait for its copies", "BoundProgram.hosted_arguments", "self._finish_copies()", "pass")
CHOSEN = Faults("what the host had better run", "minitvm.machines.gpu.strategy.refusal", [REFUSED])
CHOSEN.edit("many tasks are few", "refusal", "tasks < THREADS and ", "")
CHOSEN.edit("loops run once", "_statements", "count * volume([node.extent])", "count")
OPENCL = Faults("opencl program", "minitvm.machines.opencl.runtime.program", [ON_GRIDS])
OPENCL.edit("as many work-items as blocks", "OpenCLDevice.launch", "tuple(b * t for b, t", "tuple(max(b, t) for b, t")

GRIDS = Faults("grids", "minitvm.machines.gpu.codegen.grids", [ON_CUDA_GRIDS])
GRIDS.edit("blocks run along another axis", "GridEmitter.axis", "return index, axis",
           'return index, {"x": "y", "y": "x"}.get(axis, axis)')  # fmt: skip
GRIDS.edit("shared storage is as long as its first half", "GridEmitter.count_shared", "return count",
           "return max(1, count // 2)")  # fmt: skip
CUDA = Faults("numba_cuda statements", "minitvm.machines.cuda.codegen.numba_cuda", [ON_CUDA_GRIDS, IN_PYTHON])
CUDA.edit("threads do not wait", "_NumbaCUDA.evaluate", 'stmt.value.op == "tvm_storage_sync"', "False")
CUDA.edit("every block runs all of a parallel loop", "_EVERYBODY", "i64(cuda.blockIdx.x) *", "0 *")
CUDA.edit("arguments in another order", "_NumbaCUDA.module", "zip(self.kernel.params, words, strict=True)",
          "zip(self.kernel.params, reversed(words), strict=True)")  # fmt: skip
ALIGNED = Faults("whole vectors", "minitvm.machines.simd.codegen.alignment", [ON_CUDA_GRIDS, IN_PYTHON])
ALIGNED.edit("any place is a multiple", "is_whole",
             "return analyzer.can_prove(EQ(base % index.lanes, const(0, base.dtype)))", "return True")  # fmt: skip
ALIGNED.edit("storage begins at multiples of any vector", "is_whole", "index.lanes * buffer.dtype.bytes > buffer.align",
             "buffer.dtype.bytes > buffer.align",
             by=[by_hand("whole vectors", whole_vectors_lie_at_multiples_of_their_size)])  # fmt: skip
ALIGNED.edit("every second place is a multiple", "is_whole", "base % index.lanes", "base % 2")
SIMULATOR = Faults("simulator of CUDA", "minitvm.machines.cuda.runtime.simulator", [IN_PYTHON, MASKS_IN_PYTHON])
SIMULATOR.edit(
    "unmasked lanes are written", "_scatter", "        if m:\n            a[place] = x", "        a[place] = x"
)
SIMULATOR.edit("pairs are multiplied with themselves", "_dot2", "dot2_bf16(c, a, b)", "dot2_bf16(c, a, a)",
               by=[PAIRS_IN_PYTHON])  # fmt: skip
PAIRS_MEANT = Faults("products of pairs", "minitvm.reference.meaning.intrinsics", [PAIRS])
PAIRS_MEANT.edit("the low halves of pairs are added first", "dot2_bf16",
                 "high = flushed(_fma_narrow(a_high, b_high, flushed(acc), np.float32))\n        "
                 "return flushed(_fma_narrow(a_low, b_low, high, np.float32))[()]",
                 "low = flushed(_fma_narrow(a_low, b_low, flushed(acc), np.float32))\n        "
                 "return flushed(_fma_narrow(a_high, b_high, low, np.float32))[()]")  # fmt: skip
SIMULATOR.edit("every step is one", "_ramp", "* np.asarray(stride).astype(dtype)", "")
SIMULATOR.edit("parameters have no end", "_pointer", "word.nbytes // dtype.itemsize", "None", by=[PRETENDED])
SIMULATOR.edit("an element behind the end is in", "Pointer.elements", "<= self.length - count", "<= self.length",
               by=[PRETENDED])  # fmt: skip
WIDTH = Faults("widths of indices", "minitvm.codegen.index_width", [PRETENDED])
WIDTH.edit("the border is one too far", "_fits", "high >= _LIMIT", "high > _LIMIT + 1")
WIDTH.edit("steps do not matter", "_fits", "return all(_fits(child, analyzer) for child in children(node))",
           "return isinstance(node, Expr) or all(_fits(child, analyzer) for child in children(node))")  # fmt: skip
GIVEN = Faults("storage that launches give", "minitvm.tir.analysis.dynamic_shared", [ON_CUDA_GRIDS])
GIVEN.edit("all begins at its beginning", "dynamic_storage", "-(-end // ALIGNMENT) * ALIGNMENT", "0")
GIVEN.edit("elements are bytes", "dynamic_storage", "max(1, elements) * node.buffer.dtype.bytes", "max(1, elements)")
DRIVER = Faults("driver of CUDA", "minitvm.machines.cuda.runtime.driver", [PRETENDED])
DRIVER.edit(
    "all kernels are the first one",
    "CudaDevice.compiled",
    "loaded[code].handle, kernel.entry",
    "next(iter(loaded.values())).handle, kernel.entry",
)
DRIVER.edit("what is recorded is run while it is", "CudaDevice.recorded", "                queue()\n",
            "                queue()\n                self.finish()\n")  # fmt: skip
MACHINES = Faults("architectures of CUDA", "minitvm.machines.cuda.runtime.architectures", [PRETENDED])
MACHINES.edit("older code runs on every newer device", "runs_on", "code[0] == here[0] and code[1] <= here[1]",
              "code <= here")  # fmt: skip
MACHINES.edit("the oldest code is taken", "best_for", "return max(", "return min(")
MACHINES.edit("kernels run on older devices", "compiled_for", "wanted[:2] > here[:2] or", "")
CUBINS = Faults("cubins of artifacts", "minitvm.machines.cuda.runtime.machine_code", [PRETENDED])
CUBINS.edit("one architecture has the code of another", "pack", 'b"".join(codes)', 'b"".join(reversed(codes))')
CUBINS.edit("cubins overlap", "unpack", "bytes(data[end : end + size])", "bytes(data[end // 2 : end // 2 + size])")
