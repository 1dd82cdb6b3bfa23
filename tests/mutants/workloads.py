"""The workloads: programs of `reference.strategies` and `programs`, random legal schedules on them, where to look.

`schedules(...)`   a primitive's legal calls on programs, judged at the level of loop programs and of kernels
`lowered(...)`     programs and schedules, judged after lowering
`compiled(...)`    the same, compiled: machine code on two threads beside the interpreter, between fences of garbage
`linked(...)`      the same, judged as executables: memory plans and barriers
`pipelined(...)`   loops in stages, double buffers and virtual threads, with whatever notes they may carry
`hoisted(...)`     conditions of neighbours, moved out of loops
`strategic(...)`   the same as `lowered`, as the CPU's strategy schedules them
`graphs(...)`      random networks through graph passes
`networks(...)`    random networks through operators, fusion and linking, as executables
`tensors(...)`     tensor expressions beside the functions made of them
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin

import numpy as np
from hypothesis import strategies as st

from minitvm import build, lower, strategy, te
from minitvm.arith import simplify
from minitvm.errors import ScheduleError, Unsupported, VerificationError
from minitvm.expr import replace, rewrite, walk
from minitvm.graph.verify import verify_graph
from minitvm.reference import close, random_inputs
from minitvm.reference import executable as executable_reference
from minitvm.reference import graph as graph_reference
from minitvm.reference import tir as tir_reference
from minitvm.reference.judging.inputs.exact import exact_arguments
from minitvm.reference.strategies import graphs as random_graphs
from minitvm.reference.strategies import prim_funcs, te_computes
from minitvm.reference.strategies.layouts import strided
from minitvm.reference.strategies.small import SMALL
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.analysis.software_pipelines import DOUBLE, ORDER, STAGE, inner_parts
from minitvm.tir.nodes import Block, BlockRealize, Buffer, BufferStore, For, PrimFunc
from minitvm.tir.schedule import PRIMITIVES, Schedule
from minitvm.tir.schedule.claims import declares_what_it_touches
from minitvm.tir.schedule.handles import to_handles
from minitvm.tir.schedule.lambdas import IndexLambda
from minitvm.tir.transform import lower as lower_function
from minitvm.tir.transform.hoist_conditions import hoist_conditions
from minitvm.tir.verifier import verify
from tests.tir.schedule.thread_programs import scheduled_for_gpu, scratch_of_threads
from tests.tir.transform.block_stages import staged
from tests.tir.transform.guarded_neighbours import guarded_neighbours

from . import programs, structures
from .oracle import Noticed, Trial, Workload, drawn

Draw = Callable[[st.SearchStrategy[Any]], Any]
Family = Callable[[Draw], PrimFunc]

# What stands between a fresh program and an interesting one.
PREPARATION = ("split", "split", "reorder", "fuse", "compute_at", "reverse_compute_at", "cache_read", "cache_write",
               "decompose_reduction")  # fmt: skip
KINDS = ("vectorize", "vectorize", "parallel", "unroll")


def random_blocks(draw: Draw) -> PrimFunc:
    """The strategy that everybody may use."""
    return draw(prim_funcs(min_blocks=2))


def strided_parameters(draw: Draw) -> PrimFunc:
    """Programs whose buffers, parameters too, have strides that their text asks for."""
    return draw(strided(draw(prim_funcs(max_blocks=2))))


def never_written(draw: Draw) -> PrimFunc:
    """An output whose only write never happens, beside one that is written, through a view or not."""
    extent = draw(st.integers(0, 1))
    target = draw(st.sampled_from(["B", "v"]))
    view = "v = T.match_buffer(B[0:4], (4,))" if target == "v" else "T.evaluate(0)"
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range({extent} * 0):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            {view}
            {target}[vi] = A[vi]
    for i in range(4):
        C[i] = A[i] + T.float32({draw(st.integers(0, 3))})
""")


def step(sch: Schedule, draw: Draw, name: str) -> bool:
    """One legal call of a primitive's space, if there is one."""
    call = sch.draw(lambda n: draw(st.integers(0, n - 1)), name)
    if call is not None:
        sch.apply(call)
        return True
    broken = declares_what_it_touches.check(sch.state)
    if broken is not None:  # then no step is legal
        raise Noticed("claims", broken.found)
    return False


def wild_step(sch: Schedule, draw: Draw, name: str) -> bool:
    """A call with whatever loops, blocks and numbers the program has; the primitive refuses what is not legal."""
    primitive = PRIMITIVES[name]
    given = {}
    for parameter in primitive.signature.parameters.values():
        value = _whatever(sch, draw, primitive.hints.get(parameter.name), parameter)
        if value is not None:
            given[parameter.name] = value
    try:
        sch.call(name, given)
    except ScheduleError:
        return False
    return True


def _whatever(sch: Schedule, draw: Draw, hint: Any, parameter: Any) -> Any:
    tree = sch.state.tree()
    several = parameter.kind is parameter.VAR_POSITIONAL or _is_list(hint)
    loops, blocks = list(tree.loops.values()), [b for b in tree.blocks.values() if b is not tree.root]
    pool = loops if _holds(hint, For) else blocks if _holds(hint, BlockRealize) else []
    if pool:
        if several:
            return tuple(to_handles(draw(st.sampled_from(pool))) for _ in range(draw(st.integers(1, 3))))
        return to_handles(draw(st.sampled_from(pool)))
    if parameter.name == "gen_new_ranges":
        block = draw(st.sampled_from(blocks))
        return _other_ranges(draw, sch.get(to_handles(block)))
    if parameter.name == "buf_type":
        return draw(st.sampled_from(["read", "read", "write"]))
    if parameter.name == "factors":
        return draw(st.lists(st.sampled_from([1, 2, 3, 4, None]), min_size=1, max_size=3))
    if parameter.default is not parameter.empty and hint is not int:
        return draw(st.booleans()) if hint is bool else None
    if hint is int or _holds(hint, int):
        return draw(st.integers(-2, 2)) if parameter.name in ("index", "factor_axis") else draw(st.integers(0, 2))
    return "threadIdx.x" if parameter.name == "thread_axis" else "local"


def _other_ranges(draw: Draw, block: Block) -> Any:
    """What a block reads of its first buffer, a little more or less of it at either end."""
    if not block.reads:
        return None
    moved = [(r.start + draw(st.integers(-1, 1)), r.start + r.extent + draw(st.integers(-1, 1)))
             for r in draw(st.sampled_from(block.reads)).region]  # fmt: skip
    return IndexLambda(tuple(it.var for it in block.iter_vars), moved)


def _is_list(hint: Any) -> bool:
    return get_origin(hint) in (list, Sequence) or any(map(_is_list, get_args(hint)))


def _holds(hint: Any, kind: type) -> bool:
    return hint is kind or any(_holds(inner, kind) for inner in get_args(hint))


def any_steps(sch: Schedule, draw: Draw, names: Sequence[str], most: int) -> None:
    """At least one and up to `most` legal calls of those primitives."""
    for _ in range(draw(st.integers(1, most))):
        step(sch, draw, draw(st.sampled_from(list(names))))


def lowers(func: PrimFunc) -> Any:
    """The lowered module; None where lowering refuses a function in words, for example on a CPU, with thread axes."""
    try:
        return lower_function(func, None, "main")
    except Unsupported:
        return None


# ---- schedules -------------------------------------------------------------------------------------------------------


def schedules(*names: str, of: Family = random_blocks, prepare: Sequence[str] = PREPARATION, depth: int = 2,
              modes: Sequence[str] = ("exact", "shadow"), kernels: bool = True, examples: int = 200,
              then: Sequence[str] = (), wild: bool = False) -> Workload:  # fmt: skip
    """Some preparation, then calls of the primitives `names`, then some of `then`.

    The calls come from the primitives' own spaces, or, where `wild`, have whatever arguments the program offers.
    """
    take = wild_step if wild else step

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        sch = Schedule(func)
        if prepare:
            any_steps(sch, draw, prepare, depth)
        before = sch.func
        done = [take(sch, draw, name) for name in names for _ in range(draw(st.integers(1, 2)))]
        if not any(done):
            return
        if then:
            any_steps(sch, draw, then, 2)
        trial.same(before, sch.func, level="tir", modes=modes)
        if kernels:
            module = lowers(sch.func)
            if module is not None:
                trial.same(before, module, level="kernel")

    how = "wild calls" if wild else "schedules"
    first = f", first up to {depth} of {listed(prepare)}" if prepare else ""
    last = f", then of {listed(then)}" if then else ""
    return drawn(f"{how} of {', '.join(names)} on {of.__name__}{first}{last}", body, examples)


def listed(names: Sequence[str]) -> str:
    """Names, each once."""
    return ", ".join(dict.fromkeys(names))


# ---- lowering and code generation ------------------------------------------------------------------------------------

LOWERED = (
    "split",
    "split",
    "reorder",
    "fuse",
    "compute_at",
    "cache_read",
    "vectorize",
    "vectorize",
    "unroll",
    "parallel",
)


def with_lanes(sch: Schedule, draw: Draw) -> None:
    """Innermost reduction loops that ask to accumulate in several lanes."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = sch.get_loops(block)
        if loops and draw(st.booleans()):
            sch.annotate(loops[-1], "vector_reduction", draw(st.sampled_from([2, 4, 8])))


def scheduled(draw: Draw, of: Family, names: Sequence[str], most: int, lanes: bool) -> tuple[PrimFunc, PrimFunc]:
    """A program, and it again under a random schedule."""
    func = of(draw)
    sch = Schedule(func)
    any_steps(sch, draw, names, most)
    if lanes:
        with_lanes(sch, draw)
    return func, sch.func


def lowered(of: Family = random_blocks, names: Sequence[str] = LOWERED, most: int = 5, lanes: bool = False,
            target: str | None = None, examples: int = 250) -> Workload:  # fmt: skip
    """Programs under random schedules, lowered."""
    chosen = None if target is None else Target(target)

    def body(trial: Trial, draw: Draw) -> None:
        before, after = scheduled(draw, of, names, most, lanes)
        trial.same(before, lower_function(after, chosen, "main"), level="kernel")

    how = f"{' in lanes' if lanes else ''}{f' for {target}' if target else ''}"
    return drawn(f"lowering {of.__name__}{how} (up to {most} of {listed(names)})", body, examples)


def compiled(of: Family = random_blocks, names: Sequence[str] = LOWERED, most: int = 4, lanes: bool = False,
             threads: int = 2, examples: int = 60) -> Workload:  # fmt: skip
    """Programs under random schedules, or without `names` the strategy's, as machine code."""

    def body(trial: Trial, draw: Draw) -> None:
        if names:
            before, after = scheduled(draw, of, names, most, lanes)
        else:
            before = of(draw)
            after = strategy.schedule(before, Target("cpu")).func
        trial.compared += 1
        beside_the_interpreter(before, build(after, threads=threads))

    how = f"up to {most} of {listed(names)}" if names else "the strategy"
    return drawn(f"compiled {of.__name__}{' in lanes' if lanes else ''} ({how})", body, examples)


def strategic(of: Family, target: str, examples: int = 100) -> Workload:
    """Programs as the strategy for a CPU schedules them, lowered."""
    chosen = Target(target)

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        trial.same(func, lower_function(strategy.schedule(func, chosen).func, chosen, "main"), level="kernel")

    return drawn(f"the strategy for {target} on {of.__name__}", body, examples)


def hoisted(examples: int = 200) -> Workload:
    """Loops over neighbours under conditions of their own, through the pass that moves conditions out."""

    def body(trial: Trial, draw: Draw) -> None:
        func = guarded_neighbours(draw)
        trial.same(func, hoist_conditions(func), level="conditions")

    return drawn("neighbours under conditions", body, examples)


def pipelined(of: Family, *, threads: bool = False, examples: int = 150) -> Workload:
    """Loops run in stages, blocks an iteration ahead, or loops over virtual threads, wherever a schedule allows it."""

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        sch = Schedule(func)
        for loop in list(sch.state.tree().loops.values()):
            handle, count = to_handles(loop), len(inner_parts(loop))
            with contextlib.suppress(ScheduleError):
                if threads and draw(st.booleans()):
                    sch.bind(handle, "vthread")
                elif count > 1:
                    stages = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
                    sch.annotate(handle, STAGE, sorted(stages) if draw(st.booleans()) else stages)
                    if draw(st.booleans()):
                        sch.annotate(handle, ORDER, list(draw(st.permutations(range(count)))))
        for block in list(sch.state.tree().blocks.values()):
            if block.block.writes and draw(st.integers(0, 2)) == 0:
                with contextlib.suppress(ScheduleError):
                    sch.annotate(to_handles(block), DOUBLE, 0)
        if sch.func is func:
            return
        trial.same(func, sch.func, level="tir")
        try:
            module = lower_function(sch.func, None, "main")
        except ScheduleError as error:  # schedules refuse when they are made, not later
            raise Noticed("refused by lowering", str(error)) from error
        trial.same(func, module, level="kernel")

    return drawn(f"{'virtual threads' if threads else 'pipelines'} on {of.__name__}", body, examples)


def on_a_grid(examples: int = 400) -> Workload:
    """Schedules for a GPU: storage that threads share or own, copies that they make together; maybe a careless one."""

    def body(trial: Trial, draw: Draw) -> None:
        func, sch = scheduled_for_gpu(draw)
        with contextlib.suppress(ScheduleError):  # what is written twice then would be written by two threads
            loops = [l for l in sch.state.tree().loops.values() if l.thread is None and l.var.name[:2] in ("ax", "j_")]
            if loops and draw(st.booleans()):
                axis = draw(st.sampled_from(("threadIdx.x", "threadIdx.y", "threadIdx.z")))
                sch.bind(to_handles(draw(st.sampled_from(loops))), axis)
        trial.same(func, sch.func, level="tir")
        module = lowers(sch.func)  # a careless loop may keep some threads from a barrier: that is refused
        if module is not None:
            trial.same(func, module, level="kernel")

    return drawn("schedules for a GPU", body, examples)


def scratch(examples: int = 60) -> Workload:
    """Threads with the same few elements of storage, over and over, lowered."""

    def body(trial: Trial, draw: Draw) -> None:
        func = scratch_of_threads(draw)
        trial.same(func, lower_function(func, None, "main"), level="kernel")

    return drawn("scratch of threads", body, examples)


def rings_of_buffers(examples: int = 60) -> Workload:
    """Loops over storage of several parts that threads share, lowered."""
    from tests.tir.transform.rings import rings

    def body(trial: Trial, draw: Draw) -> None:
        func = draw(rings())
        trial.same(func, lower_function(func, None, "main"), level="kernel")

    return drawn("rings of buffers", body, examples)


def stages_of_a_block(examples: int = 60) -> Workload:
    """Stages that the threads of a block take one after the other, lowered."""

    def body(trial: Trial, draw: Draw) -> None:
        func, sch = staged(draw)
        trial.same(func, lower_function(sch.func, None, "main"), level="kernel")

    return drawn("stages of a block", body, examples)


_FENCE = 64  # elements of garbage on both sides of each array


def beside_the_interpreter(func: PrimFunc, function: Any) -> None:
    """Call compiled code on arrays between fences; `Noticed` where results differ or a fence is touched."""
    try:
        args, exact = exact_arguments(func), True
    except Unsupported:
        args, exact = random_inputs(func), False
    expected = [np.array(a) for a in args]
    tir_reference.run(func, *expected)
    fenced = [_fenced(np.asarray(a)) for a in args]
    function(*(view for _, view in fenced))
    for buffer, want, (room, found) in zip(func.params, expected, fenced):
        assert isinstance(buffer, Buffer)
        same = np.array_equal(found, want, equal_nan=want.dtype.kind == "f")
        if not same and (exact or not close(found, want, func)):
            raise Noticed(
                "compiled, exact" if exact else "compiled, close", f"{buffer.name}: {found} instead of {want}"
            )
        touched = np.concatenate([room[:_FENCE], room[-_FENCE:]])
        if not np.array_equal(touched, _garbage(touched.size, want.dtype), equal_nan=want.dtype.kind == "f"):
            raise Noticed("compiled, out of bounds", f"around {buffer.name}")


def _garbage(count: int, dtype: Any) -> np.ndarray:
    return np.full(count, np.nan if dtype.kind == "f" else 77 if dtype.kind != "b" else True, dtype)


def _fenced(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    room = _garbage(array.size + 2 * _FENCE, array.dtype)
    view = room[_FENCE : _FENCE + array.size].reshape(array.shape)
    view[...] = array
    return room, view


def linked(of: Family = random_blocks, names: Sequence[str] = LOWERED, most: int = 4, examples: int = 120) -> Workload:
    """Programs under random schedules as executables, interpreted: which bytes are whose, and who waits for whom."""

    def body(trial: Trial, draw: Draw) -> None:
        before, after = scheduled(draw, of, names, most, False)
        try:
            args = exact_arguments(before)
        except Unsupported:
            return
        trial.compared += 1
        expected = [np.array(a) for a in args]
        tir_reference.run(before, *expected)
        try:
            lower(before, stop_at="executable")
        except VerificationError:  # data decide an index of the program as it was drawn, and nothing keeps it inside
            return
        made = lower(after, stop_at="executable")
        named = dict(zip((p.name for p in before.params), args))
        taken = (*made.inputs, *(spec for spec in made.outputs if spec.inout))
        results = executable_reference.run(made, {spec.name: named[spec.name] for spec in taken}, threads=2)
        wanted = dict(zip((p.name for p in before.params), expected))
        for spec, found in zip(made.outputs, results):
            if not np.array_equal(found, wanted[spec.name]):
                raise Noticed("executable, exact", f"{spec.name}: {found} instead of {wanted[spec.name]}")

    return drawn(f"linking {of.__name__} (up to {most} of {listed(names)})", body, examples)


def simplified(of: Family, examples: int = 600) -> Workload:
    """Programs beside themselves with every value that they store simplified, under the ranges of its iterators."""

    def body(trial: Trial, draw: Draw) -> None:
        func = of(draw)
        ranges = {it.var: it.dom for node in walk(func.body) if isinstance(node, Block) for it in node.iter_vars}

        def change(node: Any) -> Any:
            return replace(node, value=simplify(node.value, ranges)) if isinstance(node, BufferStore) else None

        trial.same(func, func.with_body(rewrite(func.body, change)), level="tir")

    return drawn(f"simplifying {of.__name__}", body, examples)


# ---- graphs ----------------------------------------------------------------------------------------------------------


def graphs(function: Callable[[Any], Any], name: str, moves: Sequence[str] = (), examples: int = 1500) -> Workload:
    """Random networks before and after a pass."""

    def body(trial: Trial, draw: Draw) -> None:
        drawing = random_graphs(largest=6, moves=tuple(moves)) if moves else random_graphs(largest=6)
        case = draw(drawing)
        trial.compared += 1
        after = function(case.graph)
        verify_graph(after)
        wanted = graph_reference.run(case.graph, case.inputs)
        _compare_outputs(wanted, graph_reference.run(after, case.inputs), case.tolerances, "graph")

    return drawn(f"{name} on random graphs of {listed(moves) or 'all operators'}", body, examples)


def networks(moves: Sequence[str] = (), largest: int = 4, examples: int = 500) -> Workload:
    """Random networks as executables, interpreted: operators as loops, fusion, sharing of kernels, memory."""

    def body(trial: Trial, draw: Draw) -> None:
        options = {"moves": tuple(moves)} if moves else {}
        case = draw(random_graphs(largest=largest, symbolic=False, empty=False, **options))
        try:
            made = lower(case.graph, stop_at="executable")
        except Unsupported:
            return
        trial.compared += 1
        wanted = graph_reference.run(case.graph, case.inputs)
        found = executable_reference.run(made, case.inputs, threads=2)
        _compare_outputs(wanted, found, case.tolerances, "executable, graph")

    return drawn(f"networks of up to {largest} of {listed(moves) or 'all operators'}", body, examples)


def _compare_outputs(wanted: Sequence[Any], found: Sequence[Any], tolerances: Sequence[float], mode: str) -> None:
    for want, got, tolerance in zip(wanted, found, tolerances):
        if want.dtype != got.dtype or want.shape != got.shape:
            raise Noticed(mode, f"{got} instead of {want}")
        with np.errstate(invalid="ignore"):  # of two infinities
            off = np.abs(np.asarray(want, np.float64) - np.asarray(got, np.float64))
        if not ((off <= tolerance) | (want == got)).all():
            raise Noticed(mode, f"{got} instead of {want}")


# ---- tensor expressions ----------------------------------------------------------------------------------------------


def tensors(examples: int = 250) -> Workload:
    """Tensor expressions, evaluated element by element, beside the function that is made of them."""

    def body(trial: Trial, draw: Draw) -> None:
        kinds = [te_computes(), structures.tuple_reductions(), structures.filtered_sums(), structures.several()]
        outputs = draw(st.one_of(kinds))
        func = te.create_prim_func(outputs)
        verify(func)
        trial.same(outputs, func, level="tir")

    return drawn("tensor expressions", body, examples)


# ---- expressions -----------------------------------------------------------------------------------------------------


def families(*names: str) -> Family:
    """One of several families, drawn."""
    chosen = [SMALL[n] if n in SMALL else getattr(programs if hasattr(programs, n) else structures, n) for n in names]

    def one_of(draw: Draw) -> PrimFunc:
        return draw(st.sampled_from(chosen))(draw)

    one_of.__name__ = " or ".join(names)
    return one_of


def primitive(name: str, *, wild: bool = False, examples: int = 200, then: Sequence[str] = (),
              modes: Sequence[str] = ("exact", "shadow")) -> Workload:  # fmt: skip
    """A primitive on the programs on which its property test tries it."""
    from tests.tir.schedule.property_programs import PREPARATION, PROGRAMS

    strategy = PROGRAMS.get(name, PROGRAMS[""])

    def of(draw: Draw) -> PrimFunc:
        return draw(strategy)

    of.__name__ = "its own programs"
    prepare = PREPARATION.get(name, PREPARATION[""])
    return schedules(name, of=of, prepare=prepare, wild=wild, examples=examples, then=then, modes=modes)
