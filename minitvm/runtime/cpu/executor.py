"""The one loop that runs every program: it walks a table of steps and calls kernels by their addresses.

**Step table.** Eight int64 words a step (`step_table`): operation, kernel address, address of the argument table, a
word of the operation's own, and two words of a parallel step. `Copy` has destination, source and size in its argument
table. A `Stamp` is: operation, POSIX clock, address of thread 0's word, words from one thread's to the next's; each
thread writes the clock's value there, once more behind the help that it gives at a barrier which follows.

**Dealing.** A thread owns the same part of each parallel step, so that it finds in its caches what it wrote in the step
before. It takes its part in pieces: a half, a quarter, an eighth, and so on; the last two are equal. A thread that has
waited at a barrier for a microsecond takes pieces that other threads have not begun (work stealing: Blumofe and
Leiserson 1999; pieces that shrink: guided self-scheduling, Polychronopoulos and Kuck 1987). So a thread that the system
stopped, or that has more to do, does not keep the others waiting. Between two barriers stand steps that do not depend
on one another: a thread begins its part of the next step before the others have done theirs of this one.

A parallel step has the address of two words of thread 0, and the words from there to those of the next thread: how many
pieces of the thread's part were ever taken, which everybody may add to, and how many there will be when this visit of
the step ends, which only the thread itself reads and writes. Its own word is the number of pieces. That of `Barrier`
and `End` is the offset of the first step since the barrier before.

**Barrier.** A thread adds one to COUNT, which is never reset: the barrier with number PHASE opens when COUNT is
`threads` times the number of the next one. A thread that goes to help takes its one back, unless the barrier has
opened, and adds it again when it returns. Without its one the barrier cannot open.

A loop is a part of the table:

    Barrier, LoopBegin, [head] Barrier, LoopHead, body, Barrier, LoopNext, [behind]

`LoopBegin` and `LoopNext` are thread 0's: it counts, decides whether the loop goes on, and leaves the decision in the
arguments, where all threads read it at `LoopHead`, behind a barrier. The arguments are the addresses of the number (an
int64), of the limit (an int64) and of the condition (a byte; 0: none), the bound (-1: none), and the decision: 0 leads
behind the loop, 2 (it would go on beyond the bound) to the end of the table. `LoopHead` has the word of the end in
place of a kernel, and that of what is behind as its last word; `LoopNext` has the word of the head there.

**State table** (int64 words; words that different threads write are 128 bytes apart):

    EPOCH      counts launches; a worker that sees a new value runs PROGRAM
    COUNT      counts threads that have reached a barrier
    PHASE      counts barriers; changes when the last thread has reached it
    PROGRAM    address of the step table        SPIN, YIELD    patience, in turns of a waiting loop
    MODE       0: thread 0 posts the program, 1: it was posted, join it      STOP   1: workers leave
    ASLEEP     workers that thread 0 must wake through Python
    WORKER(t)  parked flag (1 parked, 2 to be woken), last epoch seen

The text below is compiled once per machine and kept in the kernel cache like any other kernel. Its entry has the ABI of
a kernel: `executor(state, thread, threads)`. With one thread it runs the program with no atomics at all.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .program import LoadedCode

END, PARALLEL, SEQUENTIAL, BARRIER, COPY, STAMP, LOOP_BEGIN, LOOP_HEAD, LOOP_NEXT = range(9)
STEP_WORDS = 8
OPERATION, KERNEL, ARGS, OWN, TAKEN, PITCH = range(6)  # the words of a row
MOST_PIECES = 5  # of a thread's part of a step: the last one is 1/16 of it
PATIENCE = 20  # turns of `pause` before a thread helps: to look what others do costs them some 100 ns

EPOCH, COUNT, PHASE, PROGRAM, SPIN, YIELD, MODE, STOP, ASLEEP = 0, 16, 32, 48, 49, 50, 51, 52, 53
WORKER = 64
WORKER_WORDS = 16
PARKED, SEEN = 0, 1  # words of a worker
AWAKE, IS_PARKED, WAKE = 0, 1, 2  # values of PARKED

ENTRY = "minitvm_executor"


def _run_piece(step: str, owner: str, depth: int) -> str:
    """Text that runs piece `taken` of those up to `limit` of an owner's part of a step, `depth` blocks deep."""
    lines = [
        "piece = taken - limit + pieces",
        "last = (piece + 1) // pieces",
        "parts = 2 << piece >> last",
        f"share = parts * {owner} + parts - 2 + last",
        f"call_address(program[{step} + {KERNEL}], program[{step} + {ARGS}], share, parts * threads)",
    ]
    return f"\n{depth * '    '}".join(lines)


SOURCE = f"""\
from minitvm.runtime.cpu.concurrency import (
    atomic_add, atomic_load, atomic_store, atomic_swap_if, call_address, clock_ns, copy_bytes, pause, yield_core,
)
from minitvm.runtime.vectors.simd import pointer_i64, pointer_u8


def {ENTRY}(state, thread, threads):
    spin = state[{SPIN}]
    patience = spin + state[{YIELD}]
    joining = state[{MODE}]
    mine = {WORKER} + {WORKER_WORDS} * thread
    if threads > 1 and thread == 0 and joining == 0:
        # Post the program, then look who sleeps: a worker marks itself parked and then looks at the epoch, so that
        # one of the two always sees the other.
        atomic_add(state, {EPOCH}, 1)
        asleep = 0
        for t in range(1, threads):
            asleep += atomic_swap_if(state, {WORKER} + {WORKER_WORDS} * t, {IS_PARKED}, {WAKE})
        state[{ASLEEP}] = asleep
        if asleep > 0:
            return
    if thread == 0:
        state[{ASLEEP}] = 0
    while True:
        if thread > 0:
            seen = state[mine + {SEEN}]
            turns = 0
            while atomic_load(state, {EPOCH}) == seen:
                turns += 1
                if turns <= spin:
                    pause()
                elif turns <= patience:
                    yield_core()
                else:
                    atomic_store(state, mine + {PARKED}, {IS_PARKED})
                    if atomic_load(state, {EPOCH}) == seen:
                        return
                    if atomic_swap_if(state, mine + {PARKED}, {IS_PARKED}, {AWAKE}) == 0:
                        return  # being woken: the semaphore is, or will be, released
            state[mine + {SEEN}] = seen + 1
            if atomic_load(state, {STOP}) == 1:
                return
        program = pointer_i64(state[{PROGRAM}])
        at = 0
        while True:
            operation = program[at]
            if operation == {PARALLEL}:
                if threads == 1:
                    call_address(program[at + {KERNEL}], program[at + {ARGS}], 0, 1)
                else:
                    dealt = pointer_i64(program[at + {TAKEN}])
                    counter = thread * program[at + {PITCH}]
                    pieces = program[at + {OWN}]
                    limit = dealt[counter + 1] + pieces
                    dealt[counter + 1] = limit
                    taken = atomic_load(dealt, counter)
                    while taken < limit:
                        if atomic_swap_if(dealt, counter, taken, taken + 1) == 1:
                            {_run_piece("at", "thread", 7)}
                        taken = atomic_load(dealt, counter)
            elif operation == {SEQUENTIAL}:
                if thread == 0:
                    call_address(program[at + 1], program[at + 2], 0, 1)
            elif operation == {COPY}:
                if thread == 0:
                    copy = pointer_i64(program[at + 2])
                    copy_bytes(copy[0], copy[1], copy[2])
            elif operation == {STAMP}:
                stamps = pointer_i64(program[at + 2])
                stamps[thread * program[at + 3]] = clock_ns(program[at + 1])
            elif operation == {LOOP_BEGIN} or operation == {LOOP_NEXT}:
                loop = pointer_i64(program[at + 2])
                if thread == 0:
                    count = pointer_i64(loop[0])
                    number = 0
                    if operation == {LOOP_NEXT}:
                        number = count[0] + 1
                    count[0] = number
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
                    at = program[at + 3]
                    continue
            elif operation == {LOOP_HEAD}:
                loop = pointer_i64(program[at + 2])
                if loop[4] != 1:
                    if loop[4] == 0:
                        at = program[at + 3]
                    else:
                        at = program[at + 1]
                    continue
            elif threads > 1:  # a barrier, or the end, which is one
                phase = atomic_load(state, {PHASE})
                full = (phase + 1) * threads
                present = 0
                helps = 1
                waited = 0
                while atomic_load(state, {PHASE}) == phase:
                    if present == 0:
                        present = 1
                        if atomic_add(state, {COUNT}, 1) == full - 1:
                            atomic_store(state, {PHASE}, phase + 1)
                        continue
                    waited += 1
                    if waited <= spin:
                        pause()
                    else:
                        yield_core()
                    if waited > {PATIENCE} and helps == 1:
                        arrived = atomic_load(state, {COUNT})
                        if arrived < full and atomic_swap_if(state, {COUNT}, arrived, arrived - 1) == 1:
                            present = 0
                            helps = 0
                            helped = 0
                            step = program[at + {OWN}]
                            while step < at:
                                if program[step] == {PARALLEL}:
                                    dealt = pointer_i64(program[step + {TAKEN}])
                                    pitch = program[step + {PITCH}]
                                    pieces = program[step + {OWN}]
                                    limit = dealt[thread * pitch + 1]
                                    for turn in range(1, threads):
                                        owner = (thread + turn) % threads
                                        counter = owner * pitch
                                        taken = atomic_load(dealt, counter)
                                        while taken < limit:
                                            if atomic_swap_if(dealt, counter, taken, taken + 1) == 1:
                                                helped = 1
                                                {_run_piece("step", "owner", 12)}
                                            taken = atomic_load(dealt, counter)
                                step += {STEP_WORDS}
                            if helped == 1 and program[at - {STEP_WORDS}] == {STAMP}:  # it has reached the barrier now
                                stamps = pointer_i64(program[at - {STEP_WORDS} + {ARGS}])
                                stamps[thread * program[at - {STEP_WORDS} + {OWN}]] = clock_ns(
                                    program[at - {STEP_WORDS} + {KERNEL}]
                                )
            if operation == {END}:
                break
            at += {STEP_WORDS}
        if thread == 0:
            return
"""

NativeCall = Callable[[int, int, int], None]


_adopted: list[LoadedCode] = []


def adopt(code: LoadedCode) -> None:
    """Use code of SOURCE from an artifact instead of compiling it; no effect if the executor is loaded already."""
    if not _adopted:
        _adopted.append(code)


@functools.cache
def executor() -> tuple[NativeCall, LoadedCode]:
    """The executor as a C function; calling it releases the GIL. The second value keeps its code alive."""
    loaded = _adopted[0] if _adopted else _compiled()
    return native_call(loaded.address), loaded


def _compiled() -> LoadedCode:
    from . import kernel_cache
    from .loader import load_kernel

    def compile_here(jobs: list[tuple[str, str]]) -> list[bytes]:
        from .compiler import compile_kernel  # imports Numba: only if the cache has no executor

        return [compile_kernel(*job) for job in jobs]

    return load_kernel(kernel_cache.compiled([(SOURCE, ENTRY)], compile_here)[0], ENTRY)


def native_call(address: int) -> NativeCall:
    """A kernel's address as a Python callable `(args address, thread, threads)`."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
