"""Interpret lowered programs: a host function, the kernels that it calls, and thread blocks with barriers.

Kernel calls run one after the other. The iterations of a PARALLEL loop are distributed to `threads` threads and must
not conflict, whichever threads run them. If threads of a block (loops bound to threadIdx) meet at barriers, they run as
coroutines, each up to its next barrier in turn; a barrier that some of them do not reach is an `ExecutionError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import events
from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.expr.conditions import certain_parts
from minitvm.tir import nodes as t

from .domains.domain import Domain
from .domains.domain_expressions import in_domain
from .fast.dependence import Dependence, facts_of
from .fast.grid import MASK
from .fast.lockstep import GridView, LockstepCompiler, NeedsOrder
from .fast.tracking import Conflict, SeveralMasks
from .fast.warps import shuffle
from .judging.coverage import watched
from .meaning import shadow as checks
from .meaning.runner import Run
from .meaning.scalar import ITERATION, Environment, Evaluate, Execute
from .meaning.settings import INDEPENDENT, Settings, stored_buffers
from .meaning.slow import StatementCompiler
from .meaning.steps import spend, statements
from .meaning.storage import View, allocator, bind_dimensions
from .meaning.text import statement_text
from .meaning.warps import Request, is_collective, resolve

# The steps of a thread; each ends where the thread waits, at a barrier (None) or at operations of its warp.
Steps = Iterator[Sequence[Request] | None]  # up to where a thread waits: for a barrier, or what a warp does together
Coroutine = Callable[[Environment], Steps]


def run(
    module: t.IRModule | t.PrimFunc,
    *args: Any,
    threads: int = 1,
    mode: str = "fast",
    shadow: bool = True,
    order: str = "forward",
    seed: int = 0,
    listeners: Sequence[events.Listener] = (),
    inout: Sequence[str] = (),
    sizes: Mapping[str, int] | None = None,
    entry: str | None = None,
    domain: Domain | None = None,
    coverage: Any = None,
) -> None:
    """Run a lowered module's host function, or a single kernel, on arrays; results are written in place.

    Buffers are flat at this level, so an array may have any shape with the right number of elements. `sizes` gives
    symbolic dimensions by name if flat shapes do not determine them (n * m elements give neither n nor m). `order` is
    the order of threads and of other independent iterations, in slow mode. With a `domain`, floats are its elements
    (`domains.domain`). A `coverage` records the comparisons of the fast mode. The other options are as in
    `reference.tir.run`.
    """
    if isinstance(module, t.PrimFunc):
        module = t.IRModule({module.name: module})
    host = host_function(module, entry)
    settings = Settings(shadow, order, seed, listeners, threads, domain, coverage)
    run_host(module, host, args, settings, mode, inout, sizes or {})


def host_function(module: t.IRModule, entry: str | None = None) -> t.PrimFunc:
    """Return the function named `entry`; by default, the one with the attribute "host", or the only one."""
    if entry is not None:
        if entry not in module:
            raise InputError(f"the module has no function {entry!r}; it has {', '.join(module.functions)}")
        return module[entry]
    hosts = [f for _, f in module.items() if f.attrs.get("host")] or [f for _, f in module.items()]
    if len(hosts) != 1:
        raise InputError(f"which of {', '.join(module.functions)} is to run?\n  try:    entry=...")
    return hosts[0]


def run_host(module: t.IRModule, host: t.PrimFunc, args: Sequence[Any], settings: Settings, mode: str,
             inout: Sequence[str], sizes: Mapping[str, int]) -> None:  # fmt: skip
    """Run a host function whose kernels are in `module`."""
    flat = [flattened(p, a) for p, a in zip(host.params, args, strict=False)] + list(args[len(host.params) :])
    domain, values = settings.domain, bind_dimensions(host, flat, sizes, settings.domain)
    written = stored_buffers(host, module)
    facts: dict[str, Dependence] = {}
    # The cached facts live as long as the host function, so they must not refer to it; the module does.
    kernels = {name: func for name, func in module.items() if func is not host}
    lasting = domain is None or domain.lasting

    def lockstep(in_order: set[t.For]) -> LockstepKernels:
        kind = watched(in_domain(LockstepKernels, domain), settings.coverage)
        return kind(host, settings, in_order, kernels, facts)

    Run(
        host, flat, values, [p for p in host.buffers if p in written], settings, inout,
        lambda: in_domain(KernelCompiler, domain)(host, settings, module),
        lockstep,
        keep=tuple((name, id(func)) for name, func in kernels.items()) if lasting else None,
    ).start(mode)  # fmt: skip
    for array, used in zip(args, flat, strict=True):
        if isinstance(array, np.ndarray) and not np.may_share_memory(array, used):
            array[...] = used.reshape(array.shape)


def flattened(param: t.Buffer | x.Var, array: Any) -> Any:
    """Return the array in one dimension if the parameter is flat; it shares memory if the array is contiguous."""
    is_flat = isinstance(param, t.Buffer) and len(param.shape) == 1 and isinstance(array, np.ndarray)
    return array.reshape(-1) if is_flat and array.ndim != 1 else array


def is_barrier(node: x.Node) -> bool:
    """Return whether a node is a barrier."""
    return isinstance(node, x.Call) and node.op == "tvm_storage_sync"


def waits(node: x.Node) -> bool:
    """Return whether a thread waits for others somewhere in a statement or expression."""
    return any(is_barrier(n) or is_collective(n) for n in x.walk(node))


def _is_thread(s: t.For) -> bool:
    return s.kind == t.ForKind.THREAD and (s.thread or "").startswith("threadIdx")


def _checked_args(s: t.KernelCall, module: Mapping[str, t.PrimFunc] | t.IRModule) -> t.PrimFunc:
    if s.kernel not in module:
        raise ExecutionError(f"{statement_text(s)}: the module has no function {s.kernel!r}")
    kernel = module[s.kernel]
    if len(kernel.params) != len(s.args):
        raise ExecutionError(f"{statement_text(s)}: {s.kernel} takes {len(kernel.params)} arguments")
    for param, arg in zip(kernel.params, s.args, strict=True):
        fits = isinstance(param, t.Buffer) == isinstance(arg, t.Buffer) and param.dtype == arg.dtype
        if not fits:
            raise ExecutionError(f"{statement_text(s)}: {param.name} of {s.kernel} is {param.dtype}, found {arg}")
    return kernel


def kernel_dimensions(kernel: t.PrimFunc) -> list[tuple[t.Buffer, int, x.Expr]]:
    """Return (parameter, axis, dimension) of each buffer parameter; plain variables come first, and get their values
    there.
    """
    dimensions = [(p, k, d) for p in kernel.buffers for k, d in enumerate(p.shape)]
    return sorted(dimensions, key=lambda row: not isinstance(row[2], x.Var))


class _Call:
    """A kernel compiled for one or more call sites: the slots of its parameters, and how its dimensions are bound."""

    def __init__(self, compiler: Any, kernel: t.PrimFunc) -> None:
        self.compiler, self.kernel = compiler, kernel
        self.slots = [compiler.define(p) for p in kernel.params]
        self.bind: list[tuple[int, int, int]] = []
        self.check: list[tuple[t.Buffer, int, int, Evaluate]] = []
        for param, axis, dim in kernel_dimensions(kernel):
            if isinstance(dim, x.Var) and dim not in compiler.slots:
                self.bind.append((compiler.define(dim), compiler.slot(param), axis))
            else:
                self.check.append((param, compiler.slot(param), axis, compiler.expr(dim)))
        self.execute: Execute = compiler.stmt(kernel.body)

    def enter(self, env: Environment, values: Sequence[Any]) -> None:
        """Bind the arguments and run."""
        for slot, value in zip(self.slots, values, strict=True):
            env[slot] = value
        for slot, buffer, axis in self.bind:
            env[slot] = env[buffer].shape[axis]
        for param, buffer, axis, least in self.check:
            shape, size = env[buffer].shape, least(env)
            if axis >= len(shape) or shape[axis] < size:
                raise ExecutionError(
                    f"{self.kernel.name}: {param.name} is too small\n  wanted: {size} elements\n  found:  {shape}"
                )
        self.execute(env)


class KernelCompiler(StatementCompiler):
    """The slow mode, with kernel calls and barriers."""

    checks_indices = False  # lowering rearranges sums; what is undefined was found before

    def __init__(self, func: t.PrimFunc, settings: Settings, module: t.IRModule) -> None:
        super().__init__(func, settings, module)
        self.module, self.calls = module, {}  # type: ignore[var-annotated]
        self.threads_around: list[tuple[str, int, Evaluate, Evaluate]] = []  # axis, slot, start and extent

    def kernel_call(self, s: t.KernelCall) -> Execute:
        kernel = _checked_args(s, self.module)
        if s.kernel not in self.calls:
            compiler = type(self)(kernel, self.settings, self.module)
            compiler.calls = self.calls
            self.calls[s.kernel] = _Call(compiler, kernel)
        call: _Call = self.calls[s.kernel]
        args = [self._argument(a) for a in s.args]
        begin, end = (events.heard(self.settings.listeners, name) for name in ("kernel_begin", "kernel_end"))

        def execute(env: Environment) -> None:
            inner: Environment = [None] * call.compiler.size
            inner[ITERATION] = env[ITERATION]
            if begin is not None:
                begin(s.kernel)
            call.enter(inner, [a(env) for a in args])
            self.settings.flights.finish(self.settings.shadow)
            if end is not None:
                end(s.kernel)

        return execute

    def _argument(self, arg: t.Buffer | x.Expr) -> Evaluate:
        if not isinstance(arg, t.Buffer):
            return self.expr(arg)
        slot = self.slot(arg)
        return lambda env: env[slot]

    # --- thread blocks ---------------------------------------------------------------------------------------------

    def opaque(self, e: x.Call) -> Evaluate:
        if is_barrier(e) or is_collective(e):
            raise Unsupported(f"{e} outside of a loop over threadIdx")
        return super().opaque(e)

    def loop(self, s: t.For) -> Execute:
        if not (_is_thread(s) and waits(s.body)):
            return super().loop(s)
        threads = self._threads(s)

        def run_block(env: Environment) -> None:
            for _ in threads(env):
                pass

        return run_block

    def _steps(self, s: t.Stmt) -> Coroutine:
        """Compile a statement in which threads may wait, to a coroutine that pauses there."""
        if not waits(s):
            execute = self.stmt(s)

            def plain(env: Environment) -> Steps:
                execute(env)
                return
                yield None

            return plain
        if isinstance(s, t.Evaluate) and is_barrier(s.value):
            return self._barrier(s)
        if isinstance(s, t.BufferStore | t.Evaluate):
            return self._together(s)
        if isinstance(s, t.Seq):
            parts = [self._steps(one) for one in s.stmts]

            def sequence(env: Environment) -> Steps:
                for part in parts:
                    yield from part(env)

            return sequence
        if isinstance(s, t.If):
            return self._branch(s)
        if isinstance(s, t.For):
            return self._threads(s) if _is_thread(s) else self._loop(s)
        if isinstance(s, t.LetStmt) and waits(s.value):
            return self._together(s)
        if isinstance(s, t.LetStmt):
            value = self.expr(s.value)
            return self._scoped(value, self.define(s.var), s.body)
        if isinstance(s, t.Allocate):
            make = allocator(self, s.buffer, self.settings.shadow)
            return self._scoped(make, self.define(s.buffer), s.body)
        raise Unsupported(f"a barrier inside of {type(s).__name__}")

    def _together(self, s: t.BufferStore | t.Evaluate | t.LetStmt) -> Coroutine:
        """Compile a statement with warp operations: these run first, and their results get names."""
        calls: list[tuple[x.Call, x.Var]] = []

        def named(node: x.Node) -> x.Node | None:
            if not is_collective(node):
                return None
            calls.append((node, x.DataVar("shuffled", node.dtype)))  # type: ignore[attr-defined, arg-type]
            return calls[-1][1]

        for node in x.walk(s if not isinstance(s, t.LetStmt) else s.value):
            if isinstance(node, x.Expr) and any(map(waits, certain_parts(node)[1])):
                raise Unsupported(f"{node}: a shuffle in a part that may be left out")
        parts = {name: getattr(s, name) for name in s._children if name != "body"}
        alone = x.replace(s, **{k: tuple(x.rewrite(i, named) for i in v) if isinstance(v, tuple) else
                                x.rewrite(v, named) for k, v in parts.items() if v is not None})  # fmt: skip
        steps = [self._request(call, var) for call, var in calls]
        rest = self._steps(alone)

        def together(env: Environment) -> Steps:
            for step in steps:
                yield from step(env)
            yield from rest(env)

        return together

    def _request(self, call: x.Call, var: x.Var) -> Coroutine:
        around, args, slot = list(self.threads_around), [self.expr(a) for a in call.args], self.define(var)

        def request(env: Environment) -> Steps:
            number, threads = 0, 1
            for _, place, start, extent in sorted(around, key=lambda row: row[0]):  # along x first
                number += (env[place] - start(env)) * threads
                threads *= extent(env)
            asked = Request(call, number, threads, tuple(a(env) for a in args))
            while not asked.done:
                yield (asked,)
            env[slot] = asked.result

        return request

    def _scoped(self, value: Evaluate, slot: int, body: t.Stmt) -> Coroutine:
        inner = self._steps(body)

        def scope(env: Environment) -> Steps:
            env[slot] = value(env)
            yield from inner(env)

        return scope

    def _barrier(self, s: t.Evaluate) -> Coroutine:
        report = self.hear["barrier"]
        scope = s.value.args[0] if isinstance(s.value, x.Call) else None
        name = scope.value if isinstance(scope, x.StringImm) else "shared"

        def meet(env: Environment) -> Steps:
            if report is not None:
                report(name)
            yield None
            if env[ITERATION] is not None:
                env[ITERATION] = env[ITERATION].after_barrier()

        return meet

    def _branch(self, s: t.If) -> Coroutine:
        condition, yes = self.expr(s.condition), self._steps(s.then_case)
        no = self._steps(s.else_case) if s.else_case is not None else None

        def branch(env: Environment) -> Steps:
            if condition(env):
                yield from yes(env)
            elif no is not None:
                yield from no(env)

        return branch

    def _loop(self, s: t.For) -> Coroutine:
        if s.kind not in (t.ForKind.SERIAL, t.ForKind.UNROLLED):
            raise Unsupported(f"a barrier inside of the {s.kind.value} loop over {s.var.name}")
        start, extent = self.expr(s.start), self.expr(s.extent)
        with self.inside(s) as slot:
            body, each = self._steps(s.body), statements(s.body)

        def loop(env: Environment) -> Steps:
            first, count = start(env), extent(env)
            spend(each * max(0, count))
            for value in range(first, first + count):
                env[slot] = value
                yield from body(env)

        return loop

    def _threads(self, s: t.For) -> Coroutine:
        """Compile a loop over threads: all iterations run in turn, each up to where it waits."""
        start, extent = self.expr(s.start), self.expr(s.extent)
        outermost = not self.threads_around
        with self.inside(s) as slot:
            self.threads_around.append((str(s.thread), slot, start, extent))
            body, settings = self._steps(s.body), self.settings
            self.threads_around.pop()
        barrier = next((n for n in x.walk(s.body) if is_barrier(n)), None)
        enter, iteration, leave = (self.hear[name] for name in ("loop_enter", "loop_iteration", "loop_exit"))

        def block(env: Environment) -> Steps:
            first, outer, execution = start(env), env[ITERATION], next(settings.executions)
            # Listeners see each phase, from one barrier to the next, as a separate loop over the threads.
            phase = events.Loop(s.var.name, first, extent(env), s.kind.value, s)
            alive: list[tuple[int, Any]] = []
            for k in settings.iterations(extent(env)):
                own = list(env)
                own[slot] = first + k
                own[ITERATION] = checks.Iteration.inside(outer, execution, first + k, s.var.name, True)
                alive.append((first + k, body(own)))
            with settings.suspecting(outermost=outer is None):
                while alive:
                    if enter is not None:
                        enter(phase)
                    running, at_barrier = alive, set()
                    while running:
                        asked: list[Request] = []
                        again = []
                        for k, thread in running:
                            if iteration is not None:
                                iteration(phase, k)
                            reached: Any = next(thread, _DONE)
                            if reached is None:
                                at_barrier.add(k)
                            elif reached is not _DONE:
                                asked += reached
                                again.append((k, thread))
                        running = again
                        if asked and outermost:
                            resolve(asked)
                        elif asked:
                            if leave is not None:
                                leave(phase)
                            yield asked
                            if enter is not None:
                                enter(phase)
                    if leave is not None:
                        leave(phase)
                    if at_barrier and len(at_barrier) < len(alive):
                        waits_there = next(k for k, _ in alive if k in at_barrier)
                        gone = next(k for k, _ in alive if k not in at_barrier)
                        raise checks.divergent_barrier(s.var.name, waits_there, gone, barrier)
                    alive = [(k, thread) for k, thread in alive if k in at_barrier]
                    if alive:
                        yield None
                        if outer is not None:  # the barrier was for the threads of all loops around this one, too
                            outer = env[ITERATION] = env[ITERATION].after_barrier()

        return block


_DONE = object()


class LockstepKernels(LockstepCompiler):
    """The fast mode, with kernel calls and barriers."""

    checks_indices = False

    def __init__(self, func: t.PrimFunc, settings: Settings, in_order: set[t.For],
                 module: Mapping[str, t.PrimFunc] | t.IRModule, facts: dict[str, Dependence]) -> None:  # fmt: skip
        if func.name not in facts:
            facts[func.name] = facts_of(func)
        super().__init__(func, settings, in_order, facts[func.name])
        self.module, self.facts_of_kernels = module, facts
        self.calls: dict[str, _Call] = {}

    def loop(self, s: t.For) -> Execute:
        several = not (isinstance(s.extent, x.IntImm) and s.extent.value <= 1)
        if _is_thread(s) and several and not self.grid(s) and any(map(is_collective, x.walk(s.body))):
            raise NeedsOrder(f"the threads of {s.var.name}, which wait for each other in warps, run in order")
        return super().loop(s)

    def note_masks(self, buffer: t.Buffer) -> None:
        for facts in self.facts_of_kernels.values():
            facts.several_masks.add(buffer)

    def kernel_call(self, s: t.KernelCall) -> Execute:
        kernel = _checked_args(s, self.module)
        if s.kernel not in self.calls:
            compiler = type(self)(kernel, self.settings, self.in_order, self.module, self.facts_of_kernels)
            compiler.calls = self.calls
            compiler.counter = self.counter
            self.calls[s.kernel] = _Call(compiler, kernel)
        call, size = self.calls[s.kernel], facts_of(kernel).size
        args: list[Evaluate] = []
        for arg in s.args:
            if isinstance(arg, t.Buffer):
                args.append(lambda env, slot=self.slot(arg): env[slot])  # type: ignore[misc]
            else:
                args.append(self.expr(arg))

        def execute(env: Environment) -> None:
            spend(size)
            call.enter(call.compiler.environment(), [a(env) for a in args])

        return execute

    def opaque(self, e: x.Call) -> Evaluate:
        if is_collective(e):
            return shuffle(e, self.axes, [self.expr(a) for a in e.args])
        if not is_barrier(e):
            return super().opaque(e)
        slots, level = [], self.level
        while level is not None and any(_is_thread(loop) for loop in level.loops):
            slots.append(self.slot(level))
            level = level.outer
        if not slots:  # the slow mode knows whether there is no loop over threads, or only one of a single iteration
            raise NeedsOrder(f"{e} outside of a loop over threadIdx")

        def meet(env: Environment) -> int:
            if env[MASK] is not None:
                raise ExecutionError("divergent barrier: some threads of the grid do not reach it")
            for slot in slots:
                env[slot].advance(self.counter)
            return 0

        return meet


class Prepared:
    """A kernel that is called many times, compiled once for each mode."""

    def __init__(self, func: t.PrimFunc, settings: Settings, mode: str) -> None:
        self.func, self.settings = func, settings
        self.module = t.IRModule({func.name: func})
        self.written = stored_buffers(func)
        self.facts_of_kernels: dict[str, Dependence] = {}
        self.in_order: set[t.For] = set()
        self.in_lockstep = mode == "fast" and not settings.listeners
        self._fast: _Call | None = None
        self._slow: _Call | None = None

    def call(self, args: Sequence[Any]) -> None:
        """Run the kernel on views and scalars, one for each parameter."""
        before = [
            (a, a.data.copy(), bytes(a.memory.init or b""))
            for p, a in zip(self.func.params, args, strict=True)
            if p in self.written
        ]
        while self.in_lockstep:
            try:
                if self._fast is None:
                    self._fast = _Call(
                        LockstepKernels(self.func, self.settings, self.in_order, self.module, self.facts_of_kernels),
                        self.func,
                    )
                views = [GridView.of(a) if isinstance(a, View) else a for a in args]
                self._fast.enter(self._fast.compiler.environment(), views)
                return
            except Conflict as conflict:
                self._undo(before)
                if self.settings.shadow and conflict.loop.kind in INDEPENDENT:
                    break
                self.in_order.add(conflict.loop)
                self._fast = None
            except SeveralMasks as masks:
                self._undo(before)
                self.facts_of_kernels[self.func.name].several_masks.add(masks.buffer)
                self._fast = None
            except NeedsOrder:
                self._undo(before)
                self.in_lockstep = False
            except ExecutionError:
                self._undo(before)
                break
        if self._slow is None:
            self._slow = _Call(KernelCompiler(self.func, self.settings, self.module), self.func)
        env: Environment = [None] * self._slow.compiler.size
        self._slow.enter(env, args)
        self.settings.flights.finish(self.settings.shadow)

    def _undo(self, before: Sequence[tuple[View, np.ndarray, bytes]]) -> None:
        for view, data, init in before:
            view.data[...] = data
            if view.memory.init is not None:
                view.memory.init[:] = init
