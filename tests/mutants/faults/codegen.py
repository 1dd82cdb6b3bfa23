"""Faults in code generation for CPUs: scalar code, vector code, masks, local buffers and registers; in what the
generated code calls; and in linking: memory plans and barriers."""

from tests.link import test_phases
from tests.link.test_plan_memory import symbolic_sizes_do_not_overlap_for_any_value
from tests.machines.simd.vectors.test_division import quotients, remainders

from ..patch import Faults
from ..seeded import FRACTIONS, PAIRS
from ..seeded import MASKS as MASKED
from ..streams import by_hand
from ..workloads import compiled, families, linked, random_blocks

CODEGEN = "minitvm.codegen."
POINTS = compiled(families("pointwise"), ("split", "vectorize", "vectorize", "unroll"))
TILES = compiled(
    families("contraction"), ("split", "split", "reorder", "vectorize", "vectorize", "unroll", "parallel", "cache_read")
)
BRANCHES = compiled(families("branches"), ("vectorize",), most=1)
QUOTIENTS = compiled(families("quotients"), ("vectorize", "split", "fuse"), most=2)
LONG = compiled(families("long_rows"), ("vectorize", "vectorize", "unroll"), most=2)
LANES = compiled(families("reduction"), ("split",), lanes=True)
CHAINS = compiled(families("chain"), ("split", "compute_at", "compute_at", "vectorize", "parallel"))
PARALLEL = compiled(random_blocks, ("parallel", "parallel", "split", "fuse"))
BLOCKS = compiled()
INDICES = compiled(families("split_indices"), ("split", "fuse", "reorder"), most=3)
MATMULS = compiled(families("contraction"), ())
SCALARS = compiled(families("branches"), ("split", "unroll"), most=1)

SCALAR = Faults(
    "numba_cpu scalar code", "minitvm.machines.simd.codegen.numba_expressions", [INDICES, QUOTIENTS, POINTS, TILES]
)
SCALAR.edit(
    "c + a * b with c and a changed",
    "NumbaExpressions.multiply_add",
    "parts = [a, b, c]",
    "parts = [c, b, a]",
    by=[MATMULS],
)

REWRITES = Faults("rewrites of operations", CODEGEN + "decompose", [INDICES, QUOTIENTS, POINTS, TILES])
REWRITES.edit(
    "a quotient shifted by one bit less", "_shifted", "divisor.bit_length() - 1", "max(0, divisor.bit_length() - 2)"
)
REWRITES.edit("a remainder masked by the divisor", "_shifted", "e.const(divisor - 1,", "e.const(divisor,")

WALK = Faults("expressions", CODEGEN + "expressions", [INDICES, QUOTIENTS, POINTS, TILES])
WALK.edit("both sides of a guarded load", "Expressions.choice", "yes=yes, no=no", "yes=no, no=no")
WALK.edit("a product of pairs is added to nothing", "Expressions.contracted", "*words, c)", "*words, product.args[0])",
          by=[PAIRS])  # fmt: skip

BRAIN = Faults("products of bfloat16 without the instruction", "minitvm.machines.simd.vectors.dot2", [PAIRS])
BRAIN.edit(
    "the low halves are added first",
    "_by_halves",
    "(a_low, a_high), (b_low, b_high)",
    "(a_high, a_low), (b_high, b_low)",
)
BRAIN.edit(
    "subnormal operands are numbers", "_halves", "_flushed((bits & _HIGH).bitcast(F32))", "(bits & _HIGH).bitcast(F32)"
)
BRAIN.edit("subnormal sums lose their sign", "_flushed", "bits & _SIGN, bits", "bits & 0, bits")

SPELLING = Faults("spelling", CODEGEN + "spelling", [MASKED])
SPELLING.edit("what an operator splits stands without brackets", "atom", "_ATOM.fullmatch(text) or _enclosed(text)",
              "True")  # fmt: skip
SPELLING.edit("fractions are rounded twice", "rounded", 'x.dtype != "float64"', "False", by=[FRACTIONS])

VECTOR = Faults(
    "numba_cpu vector code", "minitvm.machines.simd.codegen.numba_expressions", [BRANCHES, POINTS, LONG, QUOTIENTS]
)
VECTOR.edit(
    "a select the other way round",
    "NumbaExpressions.select",
    "self.value(x.true_value), self.value(x.false_value)",
    "self.value(x.false_value), self.value(x.true_value)",
)
VECTOR.edit("truncation for floor", "MARKERS", 'FloorDiv: "floordiv"', 'FloorDiv: "truncdiv"')
VECTOR.edit("less or equal for less", "MARKERS", 'LT: "lt"', 'LT: "le"')

VECTORS = Faults("expressions of vectors", CODEGEN + "expressions", [BRANCHES, POINTS, LONG, QUOTIENTS])
VECTORS.edit("every vector is contiguous", "Expressions.contiguous", "and is_const(x.stride, 1)", "")
VECTORS.edit("and for or", "Expressions.logical", "[type(x)]", "[ex.And if x.dtype.lanes > 1 else type(x)]")

MASKS = Faults("numba_cpu masks", "minitvm.machines.simd.codegen.numba_expressions", [BRANCHES, LONG])
MASKS.edit("one lane too many", "NumbaExpressions.first_lanes", "({rest}, {lanes})", "({rest} + 1, {lanes})")
MASKS.edit(
    "the mask's base forgotten",
    "NumbaExpressions.first_lanes",
    "if is_const(base, 0) else",
    "if True else",
    by=[compiled(families("long_rows"), ("split", "vectorize", "vectorize"), most=3)],
)

MASKS.edit(
    "of a sum that the lanes start from only the first term is taken off", "NumbaExpressions.first_lanes",
    "self.index_term(base)", "self.index(base)", by=[MASKED],
)  # fmt: skip

STATEMENTS = Faults("numba statements", "minitvm.machines.simd.codegen.numba_statements", [BLOCKS, TILES, LONG])
STATEMENTS.edit(
    "masks of stores dropped",
    "NumbaStatements.store_neighbours",
    "if stmt.predicate is not None:",
    "if False:",
    by=[LONG],
)
STATEMENTS.edit(
    "threads leave gaps",
    "NumbaStatements.share",
    "{offset}{n} * ({thread} + 1) // {threads}",
    "{offset}{n} // {threads} * ({thread} + 1)",
    by=[PARALLEL],
)
STATEMENTS.edit(
    "parallel loops start at zero",
    "NumbaStatements.share",
    "self.offset(stmt), self.team()",
    '"", self.team()',
    by=[compiled(families("long_rows"), ("parallel", "parallel"), most=2)],
)
STATEMENTS.edit(
    "a buffer's address is a number of elements",
    "NumbaStatements.bind_parameter",
    "(self.scalar(param)))}({word})",
    "(self.scalar(param)))}({word} // 8)",
)
STATEMENTS.edit(
    "the stack is half as large",
    "NumbaStatements.stack_array",
    "({size.value})",
    "({max(1, size.value // 2)})",
    by=[compiled(families("chain"), ("split", "compute_at", "compute_at"), examples=40)],
)

CPU_STATEMENTS = Faults("numba_cpu statements", "minitvm.machines.cpu.codegen.numba_cpu", [BLOCKS, TILES, LONG])
CPU_STATEMENTS.edit("arguments one off", "_NumbaCPU.module", 'f"args[{position}]"', 'f"args[{max(0, position - 1)}]"')
CPU_STATEMENTS.edit(
    "the number of a thread is their count", "_NumbaCPU.team", '"thread", "threads"', '"threads", "threads"',
    by=[PARALLEL],
)  # fmt: skip

EMITTER = Faults("numba_cpu emitter", CODEGEN + "emitter", [MATMULS, TILES, LANES, CHAINS])
EMITTER.edit(
    "all slots of a buffer are one variable",
    "Emitter.allocate",
    'self.names.fresh(f"{stmt.buffer.name}_{r.start}") for r in registers',
    'f"{self.names[stmt.buffer]}_register" for r in registers',
)
EMITTER.edit(
    "else becomes then",
    "Emitter.branch",
    "self.stmt(stmt.else_case)",
    "self.stmt(stmt.then_case)",
    by=[SCALARS, BRANCHES],
)
BOUNDS = Faults("bounds of loops", CODEGEN + "emitter", [LONG, BLOCKS, TILES])
BOUNDS.edit(
    "a loop's start counts twice",
    "Emitter.bounds",
    "stmt.start.value + stmt.extent.value",
    "stmt.start.value * 2 + stmt.extent.value",
)
BOUNDS.edit(
    "a loop stops at its extent, whatever its start",
    "Emitter.bounds",
    "stmt.start.value + stmt.extent.value",
    "stmt.extent.value",
)
REGISTERS = Faults("numba_cpu registers", "minitvm.tir.analysis.registers", [MATMULS, TILES, LANES, CHAINS])
REGISTERS.edit(
    "all vectors in one", "slot", "Register(index.base.value, index.lanes) if", "Register(0, index.lanes) if"
)
REGISTERS.edit(
    "two vectors in one",
    "slot",
    "Register(index.base.value, index.lanes) if",
    "Register(index.base.value // (2 * index.lanes), index.lanes) if",
)

DIVISION = Faults("simd quotients", "minitvm.machines.simd.vectors.division", [QUOTIENTS, POINTS])
DIVISION.edit("floor rounds toward zero", "floordiv", "q - 1, q)", "q, q)")
DIVISION.edit("a remainder takes the dividend's sign", "floormod", "r + divisor, r)", "r, r)")
DIVISION.edit(
    "long integers are divided as floats", "_too_long", "2 * _HELD", "1 << 63", by=[by_hand("quotients", quotients)]
)
DIVISION.edit(
    "a rounded quotient leaves a negative remainder", "_fmod", "rest + b, rest)", "rest, rest)",
    by=[by_hand("remainders", remainders)],
)  # fmt: skip

CALLS = by_hand("random calls", test_phases.test_a_barrier_stands_where_one_is_needed)
SHARES = by_hand("parts of values", test_phases.test_parts_of_one_value_wait_for_the_whole)
LINK = Faults("link", "minitvm.link.linker", [linked(), linked(random_blocks, ("parallel", "parallel", "split"))])
LINK.edit(
    "values of steps that run at the same time share memory", "Linker._plan",
    "if any(link_steps.is_parallel(self.steps[k]) for k in phase):", "if False:", by=[CALLS],
)  # fmt: skip
LINK.edit("a value dies at its first reader", "Linker._plan", "last[slot] = number", "last.setdefault(slot, number)")
PHASES = Faults("phases", "minitvm.link.steps", [*LINK.by, CALLS])
PHASES.edit("missing barrier before a parallel kernel", "team_waits", "if everyone or other", "if other")
PHASES.edit("missing barrier after a parallel kernel", "team_waits", "if everyone or other", "if everyone")
PHASES.edit("a barrier ends no phase", "team_waits", "phase = []", "pass", by=[CALLS])
PHASES.edit(
    "what is written over is nobody's", "StepTouch.meets", "self.writes or other.writes", "self.writes", by=[CALLS]
)
PHASES.edit("a part is apart from its whole", "_touch", "id(home)", "id(slot)", by=[SHARES])
MEMORY = Faults(
    "memory plan",
    "minitvm.link.plan_memory",
    [linked(), linked(families("chain"), ("split", "parallel", "vectorize"), examples=600)],
)
MEMORY.edit(
    "a value may go where one dies that it is made from",
    "Lifetime.meets",
    "self.first <= other.last and other.first <= self.last",
    "self.first < other.last and other.first < self.last",
)
MEMORY.edit(
    "a symbolic value is not rounded up to whole alignments", "_multiples", "[index] = rounded", "[index] = number"
)
MEMORY.edit(
    "of symbolic values at one place the last one is asked",
    "_place_alone",
    "any(values[m].meets(value) for m in members)",
    "values[members[-1]].meets(value)",
    by=[by_hand("lifetimes", symbolic_sizes_do_not_overlap_for_any_value)],
)
MEMORY.edit(
    "the first value's bytes are free",
    "_packed",
    "if values[p].meets(values[index]))",
    "if values[p].meets(values[index]) and p != next(iter(places)))",
)
