"""The one loop that runs every program: it walks a table of steps and calls kernels by their addresses.

**Step table.** Four int64 words a step: operation, kernel address, address of the argument table, unused. `Barrier` and
`End` have no arguments; `Copy` has destination, source and size in its argument table. A `Stamp` is: operation, POSIX
clock, address of thread 0's word, words from one thread's to the next's; each thread writes the clock's value there.

A loop is a part of the table:

    Barrier, LoopBegin, [head] Barrier, LoopHead, body, Barrier, LoopNext, [behind]

`LoopBegin` and `LoopNext` are thread 0's: it counts, decides whether the loop goes on, and leaves the decision in the
arguments, where all threads read it at `LoopHead`, behind a barrier. The arguments are the addresses of the number (an
int64), of the limit (an int64) and of the condition (a byte; 0: none), the bound (-1: none), and the decision: 0 leads
behind the loop, 2 (it would go on beyond the bound) to the end of the table. `LoopHead` has the word of the end in
place of a kernel, and that of what is behind as its last word; `LoopNext` has the word of the head there.

**State table** (int64 words; words that different threads write are 128 bytes apart):

    EPOCH      counts launches; a worker that sees a new value runs PROGRAM
    COUNT      threads that have reached the current barrier
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
STEP_WORDS = 4

EPOCH, COUNT, PHASE, PROGRAM, SPIN, YIELD, MODE, STOP, ASLEEP = 0, 16, 32, 48, 49, 50, 51, 52, 53
WORKER = 64
WORKER_WORDS = 16
PARKED, SEEN = 0, 1  # words of a worker
AWAKE, IS_PARKED, WAKE = 0, 1, 2  # values of PARKED

ENTRY = "minitvm_executor"

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
                call_address(program[at + 1], program[at + 2], thread, threads)
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
                    done = 0
                    if operation == {LOOP_NEXT}:
                        done = count[0] + 1
                    count[0] = done
                    limit = pointer_i64(loop[1])
                    decision = 0
                    if done < limit[0]:
                        decision = 1
                        if loop[2] != 0:
                            going = pointer_u8(loop[2])
                            if going[0] == 0:
                                decision = 0
                    if decision == 1 and loop[3] >= 0 and done >= loop[3]:
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
                if atomic_add(state, {COUNT}, 1) == threads - 1:
                    atomic_store(state, {COUNT}, 0)
                    atomic_add(state, {PHASE}, 1)
                else:
                    waited = 0
                    while atomic_load(state, {PHASE}) == phase:
                        waited += 1
                        if waited <= spin:
                            pause()
                        else:
                            yield_core()
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
