"""The rules for a well-formed executable, as a table. Each row has a name, the rule as a sentence, and a function that
finds violations.

This function yields `(step number or None, description)` for each violation. Rules that need offsets compare constants,
and evaluate symbolic offsets at the dimensions passed to `verify(dims=...)`; without dimensions two symbolic slices of
one arena count as overlapping only if their expressions are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..errors import InternalError, MinitvmError, VerificationError, report
from ..expr import Expr, Var, free_vars, multiple, structural_equal
from . import nodes
from .evaluation import Number, evaluate
from .printer import memory_of, script, step_text

Breach = tuple[int | None, str]
Env = Mapping[Var, Number]


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    says: str
    breaches: Callable[[nodes.Executable, Env], Iterator[Breach]]


def accesses(executable: nodes.Executable, step: nodes.Step) -> list[tuple[nodes.Location, str]]:
    """Return the locations that a step accesses, each with "r", "w" or "rw"."""
    if isinstance(step, nodes.Barrier):
        return []
    if isinstance(step, nodes.Copy):
        return [(step.dst, "w"), (step.src, "r")]
    if isinstance(step, nodes.BindSize):
        return [(step.place, "r")]
    if isinstance(step, nodes.Loop):
        decides = [step.limit] if step.going is None else [step.limit, step.going]
        return [(step.number, "w"), *((place, "r") for place in decides)]
    if isinstance(step, nodes.CallExternal):
        modes: list[str] = list(step.access)
    else:
        modes = [p.access for p in executable.kernels[step.kernel].params]
    return [(a, m) for a, m in zip(step.args, modes, strict=False) if isinstance(a, nodes.Location)]


def _value(n: nodes.Dim | float, env: Env) -> Number | None:
    try:
        return evaluate(n, env)
    except MinitvmError:
        return None


def _same(a: nodes.Dim, b: nodes.Dim) -> bool:
    if isinstance(a, Expr) and isinstance(b, Expr):
        return a is b or structural_equal(a, b)
    return not isinstance(a, Expr) and not isinstance(b, Expr) and a == b


def overlap(a: nodes.Location, b: nodes.Location, env: Env) -> bool:
    """Return whether two locations share a byte, as far as that can be decided with the values in `env`."""
    if isinstance(a, nodes.ArenaSlice) and isinstance(b, nodes.ArenaSlice):
        if a.arena != b.arena:
            return False
        numbers = [_value(n, env) for n in (a.offset, a.nbytes, b.offset, b.nbytes)]
        if None in numbers:
            return _same(a.offset, b.offset)
        a0, an, b0, bn = (int(n) for n in numbers if n is not None)
        return an > 0 and bn > 0 and a0 < b0 + bn and b0 < a0 + an
    return type(a) is type(b) and a == b


# -- the rules


def _names(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    tables = {"input": x.inputs, "output": x.outputs, "state": x.states, "constant": x.constants, "arena": x.arenas}
    for what, things in tables.items():
        seen: set[str] = set()
        for thing in things:
            name = thing.name
            if name in seen:
                yield None, f"two {what}s are called {name}"
            seen.add(name)


def _indices(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    def inside(a: nodes.Argument) -> bool:
        if isinstance(a, nodes.Input):
            return 0 <= a.index < len(x.inputs) and not isinstance(x.inputs[a.index], nodes.ScalarSpec)
        if isinstance(a, nodes.Output):
            return 0 <= a.index < len(x.outputs)
        if isinstance(a, nodes.State):
            return 0 <= a.index < len(x.states)
        if isinstance(a, nodes.ConstantRef):
            return 0 <= a.index < len(x.constants)
        return not isinstance(a, nodes.ArenaSlice) or 0 <= a.arena < len(x.arenas)

    for i, step in enumerate(x.steps):
        args: tuple[nodes.Argument, ...] = ()
        if isinstance(step, nodes.CallKernel) and not 0 <= step.kernel < len(x.kernels):
            yield i, f"kernel {step.kernel} of {len(x.kernels)}"
        if isinstance(step, nodes.CallKernel | nodes.CallExternal):
            args = step.args
        elif isinstance(step, nodes.Copy):
            args = (step.dst, step.src)
        elif isinstance(step, nodes.BindSize):
            args = (step.place,)
        elif isinstance(step, nodes.Loop):
            args = (step.number, step.limit) if step.going is None else (step.number, step.limit, step.going)
        for a in args:
            if not inside(a):
                yield i, f"{a} does not exist"


def _calling(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    places = {(nodes.Input, i) for i in range(len(x.inputs))} | {(nodes.Output, i) for i in range(len(x.outputs))}
    order = [(type(c), c.index) for c in x.calling_order]
    if len(order) != len(places) or set(order) != places:
        yield None, f"the calling order is {x.calling_order}"


def _arguments(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    for i, step in enumerate(x.steps):
        if isinstance(step, nodes.CallExternal):
            if not len(step.args) == len(step.access) == len(step.specs):
                yield i, f"{len(step.args)} arguments, {len(step.access)} accesses, {len(step.specs)} specs"
            continue
        if not isinstance(step, nodes.CallKernel):
            continue
        if len(step.grid) not in (0, 6):
            yield i, f"a grid of {len(step.grid)} extents, wanted those of blocks and threads along x, y and z"
        params = x.kernels[step.kernel].params
        if len(params) != len(step.args):
            yield i, f"{len(step.args)} arguments for {len(params)} parameters"
        for p, a in zip(params, step.args, strict=False):
            if (p.role == nodes.BUFFER) != isinstance(a, nodes.Location):
                yield i, f"{p.name} is a {p.role}, its argument is {a!r}"
            elif isinstance(a, nodes.Input | nodes.Output | nodes.State | nodes.ConstantRef) and not _holds(
                dtype := _dtype(x, a), p.dtype
            ):
                yield i, f"{p.name} is {p.dtype}, its argument is {dtype}"


def _loops(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    ends = [len(x.steps)]  # the ends of the loops around a step, the innermost last
    for i, step in enumerate(x.steps):
        while ends[-1] <= i:
            ends.pop()
        if not isinstance(step, nodes.Loop):
            continue
        end = i + 1 + step.steps
        if step.steps < 0 or end > ends[-1]:
            yield i, f"the loop repeats steps {i + 1} to {end - 1}; what is around it ends at step {ends[-1] - 1}"
            return
        ends.append(end)
        places = [("number", step.number, "int64"), ("limit", step.limit, "int64"), ("condition", step.going, "bool")]
        for what, place, wanted in places:
            if (
                isinstance(place, nodes.Input | nodes.Output | nodes.State | nodes.ConstantRef)
                and _dtype(x, place) != wanted
            ):
                yield i, f"the {what} of a loop is {wanted}, found {_dtype(x, place)}"


def _behind(ends: list[int], i: int) -> int:
    """Remove the ends of loops that end before step `i` from `ends`, and return the number of ends removed."""
    over = sum(end <= i for end in ends)
    del ends[len(ends) - over :]
    return over


def _holds(dtype: str | None, wanted: str) -> bool:
    """Return whether a tensor of dtype `dtype` may be passed for a parameter of dtype `wanted`.

    The dtypes must be equal, except that a kernel may read bytes or bfloat16 as int32 words.
    """
    return dtype == wanted or (dtype in ("int8", "uint8", "bfloat16") and wanted == "int32")


def _dtype(x: nodes.Executable, a: nodes.Location) -> str | None:
    if isinstance(a, nodes.Input):
        return x.inputs[a.index].dtype
    if isinstance(a, nodes.Output):
        return x.outputs[a.index].dtype
    if isinstance(a, nodes.State):
        return x.states[a.index].dtype
    return x.constants[a.index].dtype if isinstance(a, nodes.ConstantRef) else None


def _constants(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    for c in x.constants:
        if c.data.dtype != c.dtype.numpy or c.data.shape != c.shape or not c.data.flags.c_contiguous:
            declared, actual = f"{c.dtype}{list(c.shape)}", f"{c.data.dtype}{list(c.data.shape)}"
            yield None, f"constant {c.name} is said to be {declared}; its data is {actual}"


def _states(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    for state in x.states:
        if not all(isinstance(d, int) and d >= 0 for d in state.shape):
            yield None, f"state {state.name} has the shape ({', '.join(map(str, state.shape))})"
        if state.first is not None and not 0 <= state.first < len(x.constants):
            yield None, f"state {state.name} begins as constant {state.first} of {len(x.constants)}"
        elif state.first is not None:
            first = x.constants[state.first]
            if (first.dtype, first.shape) != (state.dtype, state.shape):
                what = f"{first.dtype}{list(first.shape)}"
                yield (
                    None,
                    f"state {state.name} is {state.dtype}{list(state.shape)}, and its first value is {what}",
                )
    for bound in x.bounds:
        specs: tuple[nodes.TensorSpec | nodes.ScalarSpec, ...] = (
            x.states if isinstance(bound.place, nodes.State) else x.inputs
        )
        bounded = specs[bound.place.index] if 0 <= bound.place.index < len(specs) else None
        if not isinstance(bounded, nodes.TensorSpec) or not bounded.dtype.is_int:
            yield None, f"a bound is on {bound.place}"


def _symbols(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    defined: set[Var] = set()
    # If a function gets its destinations from the caller, their shapes are known as well.
    specs = (*x.inputs, *x.outputs) if x.calling else x.inputs
    for spec in specs:
        if isinstance(spec, nodes.ScalarSpec):
            defined.add(spec.var)
        else:
            defined |= {d for d in spec.shape if isinstance(d, Var)}
            defined |= {found[0] for found in map(multiple, spec.shape) if found is not None}
    bound: dict[Var, int] = {}
    until: dict[Var, int] = {}  # the end of the innermost loop around the step that binds it
    ends: list[int] = []
    for i, step in enumerate(x.steps):
        _behind(ends, i)
        ends += [i + 1 + step.steps] if isinstance(step, nodes.Loop) else []
        if isinstance(step, nodes.BindSize):
            if step.var in defined or step.var in bound:
                yield i, f"{step.var.name} has a value before"
            bound[step.var] = i
            if ends:
                until[step.var] = ends[-1]
    for where, n in _expressions(x):
        for v in free_vars(n) if isinstance(n, Expr) else ():
            if v in bound and (where is None or where <= bound[v]):
                yield where, f"{v.name} has no value before step {bound[v]}"
            elif v in until and where is not None and where >= until[v]:
                yield where, f"{v.name} has no value behind its loop, which ends before step {until[v]}"
            elif v not in defined and v not in bound:
                yield where, f"{v.name} is not a dimension of anything that the caller hands over"


def _expressions(x: nodes.Executable) -> Iterator[tuple[int | None, nodes.Dim | float]]:
    """Yield the expressions of a program, each with the step that needs its value, or None if it is needed before
    step 0.
    """
    end = len(x.steps)
    for spec in x.inputs:
        if not isinstance(spec, nodes.ScalarSpec):
            yield from ((None, d) for d in spec.shape)
    yield from ((end, d) for spec in x.outputs for d in spec.shape)
    yield from ((None, a.size) for a in x.arenas)
    bound = {step.var: i for i, step in enumerate(x.steps) if isinstance(step, nodes.BindSize)}
    for guard in x.guards:  # checked as soon as its last size is bound
        at = max((bound[v] + 1 for v in guard.sizes() if v in bound), default=end)
        yield from ((at, side) for side in (guard.left, guard.right))
    for i, step in enumerate(x.steps):
        if isinstance(step, nodes.Copy):
            yield i, step.nbytes
        if isinstance(step, nodes.BindSize):
            yield i, step.most
        if isinstance(step, nodes.Loop) and step.most is not None:
            yield i, step.most
        if isinstance(step, nodes.CallKernel):
            yield from ((i, d) for d in step.grid)
        args = step.args if isinstance(step, nodes.CallKernel | nodes.CallExternal) else ()
        for a in (*args, *(loc for loc, _ in accesses(x, step))):
            if isinstance(a, nodes.ArenaSlice):
                yield i, a.offset
                yield i, a.nbytes
            elif isinstance(a, int | float | Expr):
                yield i, a


def _slices(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    for i, step in enumerate(x.steps):
        for place, _ in accesses(x, step):
            if not isinstance(place, nodes.ArenaSlice):
                continue
            offset, nbytes, size = (_value(n, env) for n in (place.offset, place.nbytes, x.arenas[place.arena].size))
            if (offset is not None and offset < 0) or (nbytes is not None and nbytes < 0):
                yield i, f"bytes {offset} to {offset} + {nbytes}"
            elif offset is not None and nbytes is not None and size is not None and offset + nbytes > size:
                yield i, f"bytes {offset} to {offset + nbytes} of an arena of {size}"


def _read_only(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    for i, step in enumerate(x.steps):
        for place, mode in accesses(x, step):
            if "w" in mode and isinstance(place, nodes.Input | nodes.ConstantRef):
                yield i, f"{step_text(x, step)} writes {'an input' if isinstance(place, nodes.Input) else 'a constant'}"


def _aliasing(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    for i, step in enumerate(x.steps):
        places = accesses(x, step)
        for j, (a, mode_a) in enumerate(places):
            for b, mode_b in places[j + 1 :]:
                if "w" in mode_a + mode_b and overlap(a, b, env):
                    yield i, "two arguments share bytes, and one of them is written"


def _memories(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    others = {arena.target for arena in x.arenas if arena.target}
    for i, step in enumerate(x.steps):
        if isinstance(step, nodes.Copy | nodes.Barrier):
            continue
        target = x.kernels[step.kernel].target if isinstance(step, nodes.CallKernel) else ""
        memory = target if target in others else ""
        for place, _ in accesses(x, step):
            if not isinstance(place, nodes.ConstantRef) and memory_of(x, place) != memory:
                at, wanted = (name or "the executable's machine" for name in (memory_of(x, place), memory))
                yield i, f"an argument lies in the memory of {at}, and the step works in that of {wanted}"


def _empty(x: nodes.Executable, place: nodes.Location, env: Env) -> bool:
    """Return whether an output or an arena slice has no bytes."""
    if isinstance(place, nodes.ArenaSlice):
        return _value(place.nbytes, env) == 0
    return isinstance(place, nodes.Output) and any(_value(d, env) == 0 for d in x.outputs[place.index].shape)


def _written(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    written: set[int] = set()
    end = 0  # the end of the outermost loop; a body may run zero times
    for i, step in enumerate(x.steps):
        if i >= end:
            written |= {p.index for p, mode in accesses(x, step) if isinstance(p, nodes.Output) and "w" in mode}
            end = i + 1 + step.steps if isinstance(step, nodes.Loop) else end
    for i, spec in enumerate(x.outputs):
        if i not in written and not spec.inout and not _empty(x, nodes.Output(i), env):
            yield None, f"output {spec.name} is never written"


def _initialised(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    written: list[nodes.Location] = [nodes.Output(i) for i, spec in enumerate(x.outputs) if spec.inout]
    ends: list[int] = []  # the ends of the loops around a step, the innermost last
    before: list[int] = []  # how much was written before each: its body may run zero times
    for i, step in enumerate(x.steps):
        for _ in range(_behind(ends, i)):
            del written[before.pop() :]
        places = accesses(x, step)
        for place, mode in places:
            scratch = isinstance(place, nodes.ArenaSlice | nodes.Output)
            if scratch and "r" in mode and not _empty(x, place, env):
                if not any(overlap(place, w, env) for w in written):
                    yield i, f"{step_text(x, step)} reads what nothing wrote"
        written += [p for p, mode in places if "w" in mode]
        if isinstance(step, nodes.Loop):
            ends.append(i + 1 + step.steps)
            before.append(len(written))


def _ordered(x: nodes.Executable, env: Env) -> Iterator[Breach]:
    since: list[
        tuple[int, bool, nodes.Location, str]
    ] = []  # step, on thread 0 only, place, mode: since the last barrier
    ends: list[int] = []
    for i, step in enumerate(x.steps):
        if _behind(ends, i):
            since.clear()
        if isinstance(step, nodes.Barrier | nodes.CallExternal | nodes.BindSize | nodes.Loop):
            since.clear()
            ends += [i + 1 + step.steps] if isinstance(step, nodes.Loop) else []
            continue
        alone = not (isinstance(step, nodes.CallKernel) and step.parallel)
        places = accesses(x, step)
        for place, mode in places:
            for j, other_alone, other, other_mode in since:
                if "w" in mode + other_mode and not (alone and other_alone) and overlap(place, other, env):
                    yield i, f"shares bytes with step {j}, and no barrier stands between them"
        since += [(i, alone, place, mode) for place, mode in places]


RULES: tuple[Rule, ...] = (
    Rule("unique_names", "inputs, outputs, constants and arenas have names of their own", _names),
    Rule("indices_in_range", "every kernel, input, output, constant and arena that a step names exists", _indices),
    Rule("calling_order", "the calling order names each input and output once", _calling),
    Rule("arguments_fit", "a kernel call has an argument of the right role and dtype for each parameter", _arguments),
    Rule("loops_nest", "a loop ends inside of what is around it, and counts in int64", _loops),
    Rule("constants_fit", "a constant's data has the stated dtype and shape and is contiguous", _constants),
    Rule("states_fixed", "a state has a constant shape, and a bound is on integers", _states),
    Rule(
        "symbols_bound",
        "each symbolic dimension is in what the caller hands over, or bound by a step before",
        _symbols,
    ),
    Rule("slices_inside_arenas", "a slice lies inside its arena", _slices),
    Rule("own_memory", "a step but a copy works in the memory of its machine alone", _memories),
    Rule("read_only", "inputs and constants are never written", _read_only),
    Rule("no_aliasing", "the arguments of one step do not share bytes that are written", _aliasing),
    Rule("outputs_written", "every output that has elements is written", _written),
    Rule("reads_after_writes", "scratch memory and outputs are written before they are read", _initialised),
    Rule(
        "ordered", "steps that share bytes, one writing, are separated by a barrier or both run on thread 0", _ordered
    ),
)


def verify(executable: nodes.Executable, dims: Env | None = None) -> None:
    """Check every rule. Raises `VerificationError`, which names the first broken rule and marks the step.

    `dims` gives values to symbolic dimensions; symbolic offsets are then compared as well. If an output would have a
    negative extent with these values, `dims` is ignored, because such a run would be refused.
    """
    env = dims or {}
    extents = [_value(extent, env) for spec in executable.outputs for extent in spec.shape]
    if any(extent is not None and extent < 0 for extent in extents):
        env = {}
    for rule in RULES:
        for where, breach in rule.breaches(executable, env):
            raise VerificationError(
                report(
                    f"executable {executable.name}: {rule.name}",
                    program=script(executable, where, "here"),
                    wanted=rule.says,
                    found=breach,
                )
            )


def rule(name: str) -> Rule:
    """Return the rule called `name`."""
    for row in RULES:
        if row.name == name:
            return row
    raise InternalError(f"no rule is called {name}")
