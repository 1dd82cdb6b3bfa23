"""The one loop that runs every program: it walks a table of steps and calls kernels by their addresses.

**Step table.** Eight int64 words per step (`step_table`): operation, kernel address, address of the argument table, a
word of the operation's own, two words of a parallel step, and whether a phase opens here. `Copy` has destination,
source and size in its argument table. A `Stamp` is: operation, POSIX clock, address of thread 0's word, words from one
thread's to the next's; each thread that takes part writes the clock's value there.

**Phases.** The steps between two barriers do not depend on one another and form a phase. Thread 0 is the caller, and it
alone walks the whole table: it takes the steps that are not parallel, decides about loops, and opens and completes
phases. A worker *joins* an open phase, runs pieces of its parallel steps, and leaves. The caller never waits for a
worker that has not joined, but runs that worker's pieces itself. So a worker that the system does not schedule costs
nothing, unless it is stopped in the middle of a piece.

**Pieces.** A thread owns the same part of each parallel step, so that data it wrote in the previous step are still in
its caches. It runs its part in pieces: a half, a quarter, an eighth, and so on; the last two are equal. Then, after
waiting for a microsecond, it runs pieces that other threads have not begun (work stealing: Blumofe and Leiserson 1999;
pieces that shrink: guided self-scheduling, Polychronopoulos and Kuck 1987). The pieces depend only on the number of
threads, not on which thread runs them, so the same call gives the same bits. A counter per thread and step holds the
number of the phase that used it last, and how many pieces of that phase have been started. A counter of an earlier
phase therefore counts as 0 and need not be reset.

**The gate** is one word: (phase number, threads that have finished their own parts, threads inside). A phase is open
while any thread is inside. The caller is always inside, and a worker is inside from joining to leaving.

    open       (p, 0, 0) -> (p, 0, 1)              the caller, at the first step of the phase
    join       (p, f, n) -> (p, f, n + 1)          a worker, if n > 0
    leave      (p, f, n) -> (p, f + 1, n - 1)      after its own part; (p, f, n - 1) after helping
    complete   (p, f, 1) -> (p + 1, 0, 0 or 1)     the caller, once all pieces have been taken; 1 opens the next phase

Three facts make this correct. (1) All pieces of a phase have been taken before it is completed: either every worker has
finished its own part, or the caller has gone through the parts of all. (2) All pieces that were taken are done: a
thread runs a piece only while it is inside, and the caller completes a phase only when it is inside alone. (3) A worker
reads the table, the counters and the buffers only while it is inside. It joins by compare-and-swap on the whole word,
so it cannot join a phase that has been completed, and it cannot touch anything after the call has returned. All
accesses of the gate are sequentially consistent, so each phase sees what the phases before it wrote. The test
`runtime/test_team_protocol.py` runs the text below under all interleavings of small teams.

**Rest.** Sometimes the caller waits for workers longer than all of them together can have saved. It would then have
been faster alone: the machine is busy, and a worker was stopped in the middle of a piece. In this case, the team runs
without workers for REST_FACTOR times as long as it waited, and then tries again.

A loop is a part of the table:

    Barrier, LoopBegin, [head] Barrier, LoopHead, body, Barrier, LoopNext, [after]

The arguments are the addresses of the number (an int64), of the limit (an int64) and of the condition (a byte; 0:
none), the bound (-1: none), and the decision. A decision of 0 jumps to the step after the loop. A decision of 2 means
that the loop would continue beyond its bound, and jumps to the end of the table. Instead of a kernel, `LoopHead` has
the position of the end of the table, and its last word is the position after the loop; the last word of `LoopNext` is
the position of the head.

**State table** (int64 words; words that different threads write are 128 bytes apart):

    GATE       see above; -1 makes workers end
    PROGRAM    address of the step table; 0 between runs of a team
    START      two words: where the steps of a phase begin, for even and for odd phases
    ASLEEP     workers that sleep and have not been woken
    SPIN, YIELD    patience of a worker, in turns of its waiting loop
    REST       until when (nanoseconds of CLOCK) no worker may join; 0: they may
    WORKER(t)  whether worker t sleeps, and the lock of Python's C library on which it sleeps

The text below is compiled once per machine and kept in the kernel cache like any other kernel. Its entry has the ABI of
a kernel: `executor(state, thread, threads)`. With one thread it runs the program with no atomics at all, and needs
only the first words of a state table. With a negative thread it reads the arguments of a call (`native_reader`).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....runtime.time_evaluator import CLOCK
from .native_reader import TEXT as READ_ARGUMENTS

if TYPE_CHECKING:
    from .program import LoadedCode

PARALLEL, SEQUENTIAL, COPY, STAMP, BARRIER, END, LOOP_BEGIN, LOOP_HEAD, LOOP_NEXT = range(9)
STEP_WORDS = 8
OPERATION, KERNEL, ARGS, OWN, TAKEN, PITCH, OPENS = range(7)  # the words of a row
MOST_PIECES = 5  # of a thread's part of a step: the last one is 1/16 of it
PIECE_BITS = 3  # of a counter: how many pieces were taken; the others are the number of the phase
PATIENCE = 20  # turns of `pause` before a thread helps: looking at the others' counters costs them some 100 ns
LONG_WAIT = 1000  # turns of a waiting caller, some 20 us; longer waits are timed
REST_FACTOR = 8  # so that waiting in vain takes at most a ninth of the time
MOST_REST = 10**9  # nanoseconds
LONG_YIELD = 10**5  # nanoseconds of one `sched_yield`

GATE, PROGRAM, START, ASLEEP, SPIN, YIELD, REST = 0, 1, 2, 16, 32, 33, 34
WORKER = 48
WORKER_WORDS = 16
PARKED, LOCK = 0, 1  # words of a worker

THREAD_BITS = 9  # of the gate: threads inside, and as many for those that have finished
PHASE_SHIFT = 2 * THREAD_BITS
INSIDE = (1 << THREAD_BITS) - 1
FINISHED = 1 << THREAD_BITS
ENDED = -1  # value of GATE

ENTRY = "minitvm_executor"


def _indented(lines: str, depth: int) -> str:
    return lines.strip().replace("\n", "\n" + depth * "    ")


def _take_pieces(row: str, first: str, beyond: str, depth: int) -> str:
    """Return source text that runs the remaining pieces of a row, for owners from `first` on, counted from the
    thread.
    """
    return _indented(
        f"""
for turn in range({first}, {beyond}):
    owner = (thread + turn) % threads
    counter = pointer_i64(program[{row} + {TAKEN}] + 8 * owner * program[{row} + {PITCH}])
    pieces = program[{row} + {OWN}]
    base = phase << {PIECE_BITS}
    count = atomic_load(counter, 0)
    piece = max(count - base, 0)
    while piece < pieces:
        if atomic_swap_if(counter, 0, count, base + piece + 1) == 1:
            helped = turn
            last = (piece + 1) // pieces
            parts = 2 << piece >> last
            share = parts * owner + parts - 2 + last
            call_address(program[{row} + {KERNEL}], program[{row} + {ARGS}], share, parts * threads)
        count = atomic_load(counter, 0)
        piece = max(count - base, 0)
""",
        depth,
    )


def _stamp(row: str, depth: int) -> str:
    return _indented(
        f"""
stamps = pointer_i64(program[{row} + {ARGS}])
stamps[thread * program[{row} + {OWN}]] = clock_ns(program[{row} + {KERNEL}])
""",
        depth,
    )


def _help(start: str, depth: int) -> str:
    """Return source text that runs other threads' pieces. The stamp before the barrier is then written again."""
    return _indented(
        f"""
row = {start}
helped = 0
while program[row] <= {STAMP}:
    if program[row] == {PARALLEL}:
        {_take_pieces("row", "1", "threads", 2)}
    row += {STEP_WORDS}
if helped > 0 and program[row - {STEP_WORDS}] == {STAMP}:
    {_stamp(f"row - {STEP_WORDS}", 1)}
""",
        depth,
    )


def source(patience: int = PATIENCE, long_wait: int = LONG_WAIT) -> str:
    """Return the executor as kernel source."""
    return f"""\
from minitvm.machines.cpu.runtime.concurrency import (
    atomic_add, atomic_load, atomic_store, atomic_swap_if, call_address, clock_ns, copy_bytes, lock_acquire,
    lock_release, pause, yield_core,
)
from minitvm.machines.simd.vectors.simd import pointer_i64, pointer_u8


def {ENTRY}(state, thread, threads):
    {_indented(READ_ARGUMENTS, 1)}
    spin = state[{SPIN}]
    if thread > 0:
        mine = {WORKER} + {WORKER_WORDS} * thread
        ready = 0  # the last phase in which this worker has taken its part
        aided = 0  # the last one in which it has helped
        turns = 0
        patience = spin + state[{YIELD}]
        while True:
            gate = atomic_load(state, {GATE})
            if gate < 0:
                return
            phase = gate >> {PHASE_SHIFT}
            if gate & {INSIDE} > 0 and (phase != ready or (turns >= {patience} and phase != aided)):
                if atomic_swap_if(state, {GATE}, gate, gate + 1) == 1:
                    program = pointer_i64(state[{PROGRAM}])
                    start = state[{START} + (phase & 1)]
                    if phase != ready:
                        row = start
                        while program[row] <= {STAMP}:
                            if program[row] == {PARALLEL}:
                                {_take_pieces("row", "0", "1", 8)}
                            elif program[row] == {STAMP}:
                                {_stamp("row", 8)}
                            row += {STEP_WORDS}
                        atomic_add(state, {GATE}, {FINISHED - 1})
                        ready = phase
                        turns = 0
                    else:
                        {_help("start", 6)}
                        atomic_add(state, {GATE}, -1)
                        aided = phase
            else:
                turns += 1
                if turns <= spin:
                    pause()
                elif turns <= patience or atomic_load(state, {PROGRAM}) != 0:
                    since = clock_ns({CLOCK})
                    yield_core()
                    if clock_ns({CLOCK}) - since > {LONG_YIELD}:  # others want this core
                        turns = patience
                else:
                    atomic_add(state, {ASLEEP}, 1)
                    atomic_store(state, mine + {PARKED}, 1)
                    lock_acquire(state[mine + {LOCK}])
                    turns = 0
    program = pointer_i64(state[{PROGRAM}])
    phase = 0
    opened = -1  # where the steps of the open phase begin
    joinable = 0
    begun = 0
    lost = 0
    if threads > 1:
        phase = atomic_load(state, {GATE}) >> {PHASE_SHIFT}
        begun = clock_ns({CLOCK})
        if begun >= state[{REST}]:
            state[{REST}] = 0
            joinable = 1
    at = 0
    while True:
        operation = program[at]
        if threads > 1 and program[at + {OPENS}] == 1:
            if opened < 0:
                opened = at
                state[{START} + (phase & 1)] = at
                atomic_store(state, {GATE}, (phase << {PHASE_SHIFT}) + joinable)
            if joinable == 1 and atomic_load(state, {ASLEEP}) > 0:
                for t in range(1, threads):
                    worker = {WORKER} + {WORKER_WORDS} * t
                    if atomic_swap_if(state, worker + {PARKED}, 1, 0) == 1:
                        atomic_add(state, {ASLEEP}, -1)
                        lock_release(state[worker + {LOCK}])
        if operation == {PARALLEL}:
            if threads == 1:
                call_address(program[at + {KERNEL}], program[at + {ARGS}], 0, 1)
            else:
                {_take_pieces("at", "0", "1", 4)}
        elif operation == {SEQUENTIAL}:
            call_address(program[at + {KERNEL}], program[at + {ARGS}], 0, 1)
        elif operation == {COPY}:
            copy = pointer_i64(program[at + {ARGS}])
            copy_bytes(copy[0], copy[1], copy[2])
        elif operation == {STAMP}:
            {_stamp("at", 3)}
        elif operation == {LOOP_BEGIN} or operation == {LOOP_NEXT}:
            loop = pointer_i64(program[at + {ARGS}])
            number_at = pointer_i64(loop[0])
            number = 0
            if operation == {LOOP_NEXT}:
                number = number_at[0] + 1
            number_at[0] = number
            limit = pointer_i64(loop[1])
            decision = 0
            if number < limit[0]:
                decision = 1
                if loop[2] != 0:
                    going = pointer_u8(loop[2])
                    if going[0] == 0:
                        decision = 0
            if decision == 1 and loop[3] >= 0 and number >= loop[3]:
                decision = 2
            loop[4] = decision
            if operation == {LOOP_NEXT}:
                at = program[at + {OWN}]
                continue
        elif operation == {LOOP_HEAD}:
            loop = pointer_i64(program[at + {ARGS}])
            if loop[4] != 1:
                if loop[4] == 0:
                    at = program[at + {OWN}]
                else:
                    at = program[at + {KERNEL}]
                continue
        elif opened >= 0:  # a barrier, or the end, which is one
            following = (phase + 1) << {PHASE_SHIFT}
            start = opened
            opened = -1
            if operation == {BARRIER} and program[at + {STEP_WORDS + OPENS}] == 1:
                opened = at + {STEP_WORDS}
                state[{START} + ((phase + 1) & 1)] = opened
                following += joinable
            waited = 0
            since = 0
            helps = 1
            while True:
                gate = atomic_load(state, {GATE})
                alone = gate & {INSIDE} <= 1
                if helps == 1 and (alone or waited >= {patience}):
                    helps = 0
                    if gate >> {THREAD_BITS} & {INSIDE} < threads - 1:
                        {_help("start", 6)}
                elif alone:
                    if atomic_swap_if(state, {GATE}, gate, following) == 1:
                        break
                else:
                    waited += 1
                    if waited == {long_wait}:
                        since = clock_ns({CLOCK})
                    if waited <= spin:
                        pause()
                    else:
                        yield_core()
            if since > 0:
                lost += clock_ns({CLOCK}) - since
            phase += 1
        if operation == {END}:
            break
        at += {STEP_WORDS}
    if threads > 1:
        state[{PROGRAM}] = 0
    if lost > 0:
        now = clock_ns({CLOCK})
        if lost > (threads - 1) * (now - begun - lost):
            state[{REST}] = now + min({REST_FACTOR} * lost, {MOST_REST})
"""


SOURCE = source()

NativeCall = Callable[[int, int, int], None]


_adopted: list[LoadedCode] = []


def adopt(code: LoadedCode) -> None:
    """Use code of SOURCE from an artifact instead of compiling it. This has no effect if the executor is already
    loaded.
    """
    if not _adopted:
        _adopted.append(code)


@functools.cache
def executor() -> tuple[NativeCall, LoadedCode]:
    """Return the executor as a C function, and an object that keeps its code alive. Calling the function releases the
    GIL.
    """
    loaded = _adopted[0] if _adopted else _compiled()
    return native_call(loaded.address), loaded


def _compiled() -> LoadedCode:
    from . import kernel_cache
    from .loader import load_kernel

    def compile_here(jobs: list[kernel_cache.Job]) -> list[bytes]:
        from .compiler import compile_kernel  # imports Numba: only if the cache has no executor

        return [compile_kernel(*job) for job in jobs]

    return load_kernel(kernel_cache.compiled([(SOURCE, ENTRY)], compile_here)[0], ENTRY)


def native_call(address: int) -> NativeCall:
    """Return the kernel at an address as a Python callable `(args address, thread, threads)`."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)


def prepared_call(state: int, thread: int, threads: int) -> Callable[[], None]:
    """Return a call of the executor with these arguments, which takes less than half the time of `native_call`: ctypes
    converts the arguments only once.
    """
    words = (ctypes.c_void_p.from_param(state), *map(ctypes.c_int64.from_param, (thread, threads)))
    return functools.partial(ctypes.CFUNCTYPE(None)(executor()[1].address), *words)
