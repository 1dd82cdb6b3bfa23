"""Put calls of kernels in sequence, with barriers between them, and make one memory plan for all values.

Each lowered function is a host function and its kernels (`tir.transform`). Linking a graph puts the calls of all its
functions in sequence, computes the lifetime of every intermediate value and workspace, and places them all in one
arena, or in one arena for each memory (`copies`). It runs after lowering, so that workspaces can share memory with the
other values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

from ..arith import Analyzer
from ..backend import get, lookup
from ..errors import InternalError
from ..executable import nodes as x
from ..expr import Expr, IntImm, Var, substitute
from ..expr.largest import largest
from ..lowering.lowered import LoweredFunc, LoweredKernel
from ..tir.nodes import Allocate, Buffer, KernelCall, Seq, Stmt
from . import steps as link_steps
from .copies import with_copies
from .plan_memory import Lifetime, plan_memory


@dataclass(slots=True)
class Linker:
    """Collects the steps of a program: kernel calls, copies, loops and sizes.

    Their operands are `Slot`s, values whose location may still be undecided. `finish` then inserts barriers, plans
    memory and builds the executable.
    """

    target: str
    kernels: list[x.Kernel] = field(default_factory=list)
    steps: list[link_steps.Step] = field(default_factory=list)
    _numbers: dict[tuple[LoweredKernel, tuple[x.KernelParam, ...]], int] = field(default_factory=dict)
    _undefined: set[link_steps.Slot] = field(default_factory=set)
    _operator: str = ""
    bounds: dict[Var, x.Dim] = field(default_factory=dict)  # of the sizes that steps bind

    def call(
        self,
        lowered: LoweredFunc,
        args: Sequence[link_steps.Slot | Expr],
        dims: Mapping[Var, Expr],
        operator: str = "",
        results: Collection[link_steps.Slot] = (),
    ) -> None:
        """Append the kernel calls of a function.

        `args` are in the order of its parameters, and `dims` gives its symbolic dimensions. `operator` names the
        operator that the calls belong to (default: the function). `results` are the arguments whose contents are
        undefined before the call, as those of workspaces are. The function reads only elements of them that it has
        written before (the interpreters check this). So the first kernel that gets such an argument counts as writing
        it, even if it also reads it.
        """
        self._operator = operator or lowered.name
        self._undefined = set(results)
        host = lowered.host
        places: dict[Any, link_steps.Slot | Expr] = dict(zip(host.params, args, strict=True))
        scalars = {**dims, **{p: a for p, a in places.items() if isinstance(p, Var) and isinstance(a, Expr)}}
        self._host(lowered, host.body, places, scalars)

    def copy(self, dst: link_steps.Slot, src: link_steps.Slot, operator: str = "copy") -> None:
        """Append a step that copies all bytes of `src` to `dst`."""
        self.steps.append(link_steps.CopyStep(dst, src, operator))

    def call_engine(
        self, engine: str, reads: Sequence[tuple[link_steps.Slot, x.TensorSpec]],
        writes: Sequence[tuple[link_steps.Slot, x.TensorSpec]], attrs: Mapping[str, Any], operator: str,
    ) -> None:  # fmt: skip
        """Append a call of an engine. It reads all of the slots in `reads`, and writes all of those in `writes`."""
        pairs = [*reads, *writes]
        access = ["r"] * len(reads) + ["w"] * len(writes)
        slots, specs = [slot for slot, _ in pairs], [spec for _, spec in pairs]
        self.steps.append(link_steps.ExternalStep(engine, slots, access, specs, attrs, operator))

    def bind_size(
        self, var: Var, count: link_steps.Slot, most: x.Dim, where: str, operator: str, reason: str = ""
    ) -> None:
        """Append a step that sets the size `var` to the number in `count`.

        Memory is planned for the largest possible size, `most`.
        """
        self.bounds[var] = most
        self.steps.append(link_steps.Bind(var, count, most, where, operator, reason))

    @contextmanager
    def loop(
        self,
        number: link_steps.Slot,
        limit: link_steps.Slot,
        going: link_steps.Slot | None,
        most: x.Dim | None,
        where: str,
        operator: str,
    ) -> Iterator[None]:
        """Append a loop (`executable.Loop`): the steps that you append within this context become its body."""
        step = link_steps.LoopStep(number, limit, going, most, where, operator)
        self.steps.append(step)
        yield
        step.end = len(self.steps)

    def _host(
        self, lowered: LoweredFunc, stmt: Stmt, places: dict[Any, link_steps.Slot | Expr], scalars: Mapping[Var, Expr]
    ) -> None:
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                self._host(lowered, part, places, scalars)
        elif isinstance(stmt, Allocate):
            workspace = link_steps.Slot(stmt.buffer.name, link_steps.buffer_bytes(stmt.buffer, scalars))
            self._undefined.add(workspace)
            self._host(lowered, stmt.body, {**places, stmt.buffer: workspace}, scalars)
        elif isinstance(stmt, KernelCall):
            args = [places[a] if isinstance(a, Buffer) else substitute(a, scalars) for a in stmt.args]
            first = [isinstance(arg, link_steps.Slot) and arg in self._undefined for arg in args]
            number = self._kernel(lowered.kernels[stmt.kernel], args, first, lowered.refusal)
            grid = [substitute(d, scalars) for d in stmt.grid]
            self.steps.append(link_steps.CallStep(number, args, stmt.parallel, self._operator, grid, first))
        else:
            raise InternalError(f"a host function holds only kernel calls, found {type(stmt).__name__}")

    def _kernel(
        self, kernel: LoweredKernel, args: Sequence[link_steps.Slot | Expr], new: Sequence[bool], refusal: str
    ) -> int:
        """Return the index of the kernel to call with `args`, adding the kernel to the list if needed.

        `new` says which arguments are undefined before the call. After it, all arguments count as defined.
        """
        self._undefined.difference_update(arg for arg in args if isinstance(arg, link_steps.Slot))
        params = tuple(
            replace(p, access="w") if first and p.access == "rw" else p
            for p, first in zip(kernel.params, new, strict=True)
        )
        if (kernel, params) not in self._numbers:
            self._numbers[kernel, params] = len(self.kernels)
            names = {k.name for k in self.kernels}
            name = kernel.name if kernel.name not in names else f"{kernel.name}_{len(self.kernels)}"
            self.kernels.append(
                x.Kernel(
                    name,
                    str(get(kernel.target).language),
                    kernel.source,
                    kernel.name,
                    params,
                    kernel.script,
                    kernel.program,
                    kernel.shared_bytes,
                    "" if kernel.target == self.target else kernel.target,
                    refusal,
                    kernel.tasks,
                )
            )
        return self._numbers[kernel, params]

    def finish(
        self,
        name: str,
        inputs: Sequence[x.TensorSpec | x.ScalarSpec],
        outputs: Sequence[x.TensorSpec],
        constants: Sequence[x.Constant] = (),
        calling: Sequence[x.Input | x.Output] = (),
        guards: Sequence[x.Guard] = (),
        states: Sequence[x.StateSpec] = (),
        bounds: Sequence[x.Bound] = (),
    ) -> x.Executable:
        """Build the executable. Slots without a location are placed in one arena per memory, according to their
        lifetimes.

        Raises `InternalError` if the steps do not write an output, or read a slot before they write it.
        """
        self._check_written(outputs)
        self.steps = with_copies(self.steps, self.kernels, [self._memory(kernel) for kernel in self.kernels])
        edges = link_steps.edges_of(self.steps)
        waits = self._waits(edges)
        numbers = [number + barriers for number, barriers in enumerate(accumulate(waits))]
        arenas = self._plan(numbers, list(link_steps.phases(edges, waits)))
        steps: list[x.Step] = []
        for position, (wait, step) in enumerate(zip(waits, self.steps, strict=True)):
            if wait:
                steps.append(x.Barrier())
            if isinstance(step, link_steps.LoopStep):
                inside = numbers[step.end - 1] - len(steps) if step.end > position + 1 else 0
                going = None if step.going is None else _place(step.going)
                steps.append(
                    x.Loop(inside, _place(step.number), _place(step.limit), going, step.most, step.where, step.operator)
                )
            elif isinstance(step, link_steps.Bind):
                steps.append(
                    x.BindSize(step.var, _place(step.count), step.most, step.where, step.operator, step.reason)
                )
            elif isinstance(step, link_steps.CopyStep):
                steps.append(x.Copy(_place(step.dst), _place(step.src), step.src.nbytes, step.operator))
            elif isinstance(step, link_steps.ExternalStep):
                places = tuple(map(_place, step.args))
                steps.append(x.CallExternal(step.engine, places, tuple(step.access), tuple(step.specs), step.attrs))
            else:
                args = tuple(_place(a) if isinstance(a, link_steps.Slot) else plain(a) for a in step.args)
                grid = tuple(map(plain, step.grid))
                steps.append(x.CallKernel(step.kernel, args, step.parallel, step.operator, grid))
        return x.Executable(
            name, self.target, tuple(inputs), tuple(outputs), tuple(constants), arenas, tuple(self.kernels),
            tuple(steps), tuple(calling), tuple(guards), tuple(states), tuple(bounds),
        )  # fmt: skip

    def _waits(self, edges: Sequence[int]) -> list[bool]:
        """Return, for each step, whether all threads must wait before it.

        This is decided separately for each stretch between two `edges`.
        """
        decide = lookup(self.target, "waits") or link_steps.team_waits
        parallel = [link_steps.is_parallel(step) for step in self.steps]
        touches = [link_steps.touches_of(step, self.kernels) for step in self.steps]
        return [wait for a, b in pairwise(edges) for wait in decide(parallel[a:b], touches[a:b])]

    def _check_written(self, outputs: Sequence[x.TensorSpec]) -> None:
        """Raise `InternalError` if no step writes an output: a run would return arbitrary bytes."""
        written: dict[
            link_steps.Slot, int | None
        ] = {}  # an upper bound of the bytes written of each slot that has its own memory
        lowered = [kernel for kernel, _ in self._numbers]
        for step in self.steps:
            for slot, mode, place in link_steps.touched(step, self.kernels):
                home, _ = slot.storage()
                if mode == "r" and home not in written and _is_scratch(home, outputs) and slot.nbytes != 0:
                    raise InternalError(f"{step.operator} reads {slot.name}, which no step before it writes")
                before = written.get(home, 0)
                if mode == "r" and _is_scratch(home, outputs) and before is not None and _less(before, home.nbytes):
                    read = self._surely_read(step, slot, lowered)
                    if before < read:
                        raise InternalError(
                            f"{step.operator} reads {read} bytes of {slot.name}, of which the steps before it write "
                            f"{before} at most"
                        )
                if "w" in mode:
                    nbytes = self._most_written(step, place, lowered)
                    written[home] = None if before is None or nbytes is None else before + nbytes
        writers: dict[int, tuple[link_steps.Slot, list[int | None]]] = {}
        for slot, nbytes in written.items():
            if isinstance(slot.location, x.Output):
                writers.setdefault(slot.location.index, (slot, []))[1].append(nbytes)
        for index, spec in enumerate(outputs):
            if spec.inout or any(isinstance(d, int) and d == 0 for d in spec.shape):
                continue
            if index not in writers and any(map(_is_nothing, spec.shape)):
                continue
            if index not in writers:
                raise InternalError(f"no step writes the output {spec.name}")
            slot, parts = writers[index]
            total = None if None in parts else sum(part for part in parts if part is not None)
            if total is not None and isinstance(slot.nbytes, int) and total < slot.nbytes:
                raise InternalError(f"the steps write {total} of the {slot.nbytes} bytes of output {spec.name} at most")

    def _surely_read(self, step: link_steps.Step, slot: link_steps.Slot, lowered: Sequence[LoweredKernel]) -> int:
        """Return a lower bound on the number of bytes that a step reads from a slot."""
        if not isinstance(step, link_steps.CallStep):
            return slot.nbytes if isinstance(slot.nbytes, int) else 0
        kernel = lowered[step.kernel]
        rows = zip(kernel.params, kernel.surely_read, step.args, strict=True)
        return max((count * p.dtype.bytes for p, count, arg in rows if arg is slot), default=0)

    def _most_written(self, step: link_steps.Step, place: int, lowered: Sequence[LoweredKernel]) -> int | None:
        """Return an upper bound on the bytes that a step writes through the slot at `place`, or None if there is no
        bound.
        """
        if isinstance(step, link_steps.CallStep):
            count = lowered[step.kernel].written[place]
            return None if count is None else count * self.kernels[step.kernel].params[place].dtype.bytes
        if isinstance(step, link_steps.CopyStep):
            return step.src.nbytes if isinstance(step.src.nbytes, int) else None
        if isinstance(step, link_steps.ExternalStep):
            nbytes = step.args[place].nbytes
            return nbytes if isinstance(nbytes, int) else None
        return 8  # the size of a loop's counter

    def _plan(self, numbers: Sequence[int], together: Sequence[range]) -> tuple[x.Arena, ...]:
        """Plan one arena per memory for the slots without a location.

        `numbers` are the step numbers in the executable. Each range in `together` is a phase: its steps can overlap in
        time if at least one of them runs on all threads.
        """
        first: dict[link_steps.Slot, int] = {}
        last: dict[link_steps.Slot, int] = {}
        parts: dict[link_steps.Slot, None] = {}
        for number, step in zip(numbers, self.steps, strict=True):
            for item in link_steps.used(step):
                if isinstance(item, link_steps.Slot) and item.location is None:
                    parts.setdefault(item)
                    slot, _ = item.storage()
                    first.setdefault(slot, number)
                    last[slot] = number
        if not first:
            return ()
        for position, step in enumerate(self.steps):
            if isinstance(
                step, link_steps.LoopStep
            ):  # the outer ones come first, so that the range of an inner one is inside theirs
                begin, end = numbers[position], numbers[step.end - 1]
                for slot in first:
                    # A value from before the loop that is used in it is used in each iteration.
                    if first[slot] <= begin <= last[slot] <= end:
                        last[slot] = end
        begins, ends = dict(zip(numbers, numbers, strict=True)), dict(zip(numbers, numbers, strict=True))
        for phase in together:
            if any(link_steps.is_parallel(self.steps[k]) for k in phase):
                begins |= {numbers[k]: numbers[phase[0]] for k in phase}
                ends |= {numbers[k]: numbers[phase[-1]] for k in phase}
        rooms = {slot: largest(slot.nbytes, self.bounds) for slot in {*first, *parts}}
        arenas: list[x.Arena] = []
        for memory in dict.fromkeys(slot.memory for slot in first):
            slots = [slot for slot in first if slot.memory == memory]
            plan = plan_memory(
                [Lifetime(slot.name, rooms[slot], begins[first[slot]], ends[last[slot]]) for slot in slots]
            )
            offsets = dict(zip(slots, plan.offsets, strict=True))
            for item in parts:
                slot, within = item.storage()
                if slot in offsets:
                    place = offsets[slot] + within if within else offsets[slot]
                    item.location = x.ArenaSlice(len(arenas), place, rooms[item])
            residents = [x.Resident(slot.name, offsets[slot], rooms[slot], first[slot], last[slot]) for slot in slots]
            name = f"{memory.split()[0]}_arena" if memory else "arena"
            arenas.append(x.Arena(name, plan.size, residents=tuple(residents), target=memory))
        return tuple(arenas)

    def _memory(self, kernel: x.Kernel) -> str:
        """Return the target whose memory a kernel works in, or "" for the program's own memory."""
        if not kernel.target or all(lookup(target, "hosted") for target in (kernel.target, self.target)):
            return ""
        return kernel.target


def _is_nothing(dim: Expr | int) -> bool:
    """Return whether an extent is always 0. No step writes a tensor without elements."""
    bounds = Analyzer().bounds(dim) if isinstance(dim, Expr) else None
    return bounds is not None and bounds[1] == 0


def _less(count: int, size: x.Dim) -> bool:
    return isinstance(size, int) and count < size


def _is_scratch(slot: link_steps.Slot, outputs: Sequence[x.TensorSpec]) -> bool:
    """Return whether the contents of a slot are undefined when a run begins: arena memory, or an output that is not an
    input too.
    """
    location = slot.location
    return location is None or (isinstance(location, x.Output) and not outputs[location.index].inout)


def _place(slot: link_steps.Slot) -> x.Location:
    if slot.location is None:
        raise InternalError(f"{slot.name} has no place in memory")
    return slot.location


def plain(value: Expr) -> Any:
    return value.value if isinstance(value, IntImm) else value
