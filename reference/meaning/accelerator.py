"""The accelerator's memories and queues, and the effect of each instruction on them; `reference.accel` runs it.

Each element of a memory remembers which instructions accessed it last, by their numbers within their modules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from minitvm.errors import ExecutionError, InputError, report
from minitvm.machines.vta import isa
from minitvm.machines.vta.config import AccelConfig, Scratchpad
from minitvm.machines.vta.isa import AluOp, Module, Program

from ..fast import micro_ops

MODULES = tuple(Module)
HOST = -1  # the number of what was written before the first instruction
Array = np.ndarray[Any, Any]


class Unordered(ExecutionError):
    """Two instructions access the same element, one of them writes it, and no tokens order them."""

    def __init__(self, text: str, first: int, second: int) -> None:
        super().__init__(text)
        self.first, self.second = first, second


class Deadlock(ExecutionError):
    """No module can continue, but instructions are left."""


class _Shadow:
    """The last accesses to each element of a memory, as numbers of instructions within their modules; 0 is nobody."""

    def __init__(self, depth: int) -> None:
        self.writer = np.zeros(depth, dtype=np.int8)
        self.written = np.zeros(depth, dtype=np.int32)
        self.read = np.zeros((len(MODULES), depth), dtype=np.int32)


class Machine:
    """The state of the machine: scratchpads, DRAM, queues of commands and tokens, and the last accesses to each
    element.
    """

    def __init__(self, program: Program, config: AccelConfig, inputs: Mapping[str, Any], ordered: bool) -> None:
        self.program, self.config, self.ordered = program, config, ordered
        self.grain = np.gcd.reduce([config.element_bytes(pad) for pad in Scratchpad])
        for buffer in program.buffers:
            self.grain = np.gcd(self.grain, buffer.address)
        self.grain = int(self.grain)
        ends = [b.address + b.count * config.element_bytes(b.kind) for b in program.buffers]
        self.dram = np.zeros(max(ends, default=0), dtype=np.uint8)
        held: list[Scratchpad] = [pad for pad in Scratchpad if pad is pad.held]
        self.pads: dict[Scratchpad, Array] = {
            p: np.zeros((config.depth(p), *config.shape(p)), dtype=config.dtype(p)) for p in held
        }
        self.pads[Scratchpad.UOP] = np.zeros((config.depth(Scratchpad.UOP), 3), dtype=np.int64)
        self.shadows: dict[Scratchpad | str, _Shadow] = {p: _Shadow(config.depth(p)) for p in held}
        self.shadows["dram"] = _Shadow(len(self.dram) // self.grain)
        self._bring(inputs)
        self.fetched = 0
        self.commands: dict[Module, deque[int]] = {module: deque() for module in MODULES}
        self.tokens: dict[isa.Queue, deque[Array]] = {queue: deque() for queue in isa.QUEUES}
        self.clocks = {module: np.zeros(len(MODULES), dtype=np.int64) for module in MODULES}
        self.ran: dict[Module, list[int]] = {module: [] for module in MODULES}
        self.ended: set[int] = set()  # instructions that wait for room for their tokens
        self.now = -1  # the instruction that runs
        self.fetch()

    # --- DRAM -------------------------------------------------------------------------------------------------------

    def _bring(self, inputs: Mapping[str, Any]) -> None:
        """Write the inputs to DRAM, as the host does before the first instruction."""
        wanted = [b.name for b in self.program.buffers if b.role == "input"]
        unknown, missing = sorted(set(inputs) - set(wanted)), [name for name in wanted if name not in inputs]
        if unknown or missing:
            what = f"{unknown[0]!r}, which is no input" if unknown else f"nothing for {missing[0]!r}"
            raise InputError(
                report(f"{self.program.name}: wrong inputs", wanted=", ".join(wanted) or "none", found=what)
            )
        for buffer in self.program.buffers:
            shape, dtype = (buffer.count, *self.config.shape(buffer.kind)), self.config.dtype(buffer.kind)
            if buffer.role == "constant":
                data = np.array([self._packed(op) for op in buffer.uops], dtype=np.uint32)
            elif buffer.role == "input":
                data = np.asarray(inputs[buffer.name])
                if data.dtype != dtype or data.size != int(np.prod(shape)):
                    found = f"{data.dtype}{list(data.shape)}"
                    raise InputError(report(f"{self.program.name}: the input {buffer.name} does not fit",
                                            wanted=f"{dtype}{list(shape)}", found=found))  # fmt: skip
            else:
                continue
            raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            self.dram[buffer.address : buffer.address + raw.size] = raw
            first = buffer.address // self.grain
            self.shadows["dram"].written[first : first + raw.size // self.grain] = HOST

    def _index_bits(self) -> tuple[int, int, int]:
        widths = self.config.widths
        return widths.acc, max(widths.acc, widths.inp), widths.wgt

    def _packed(self, op: isa.MicroOp) -> int:
        dst, src, _ = self._index_bits()
        return op.dst | op.src << dst | op.wgt << (dst + src)

    def outputs(self) -> dict[str, Array]:
        """Return the output buffers as the host reads them."""
        found = {}
        for b in self.program.buffers:
            if b.role == "output":
                raw = self.dram[b.address : b.address + b.count * self.config.element_bytes(b.kind)]
                shape = (b.count, *self.config.shape(b.kind))
                found[b.name] = raw.view(self.config.dtype(b.kind)).reshape(shape).copy()
        return found

    # --- order ------------------------------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Send instructions to their modules until one does not fit into its queue."""
        while self.fetched < len(self.program.instructions):
            queue = self.commands[self.program.instructions[self.fetched].module]
            if len(queue) >= self.config.command_depth:
                return
            queue.append(self.fetched)
            self.fetched += 1

    def can_run(self, module: Module) -> bool:
        """Return whether a module can make a step: run its next instruction, or push the tokens of one that has
        ended.
        """
        return bool(self.commands[module]) and not self.obstacle(self.commands[module][0])

    def obstacle(self, index: int) -> str:
        """Return what an instruction waits for, as text; "" for nothing."""
        one = self.program.instructions[index]
        for queue in one.pushes if index in self.ended else ():
            if len(self.tokens[queue]) >= self.config.token_depth:
                return f"room for a token to {queue[1].value}, which has {self.config.token_depth}"
        for queue in one.pops if index not in self.ended else ():
            if not self.tokens[queue]:
                return f"a token of {queue[0].value}, {self._pusher(queue)}"
        return ""

    def _pusher(self, queue: isa.Queue) -> str:
        """Return which instruction would push the missing token, as text."""
        waiting = self.commands[queue[0]]
        for index in waiting:
            if queue in self.program.instructions[index].pushes:
                return f"which instruction {index} would push"
        for index in range(self.fetched, len(self.program.instructions)):
            if queue in self.program.instructions[index].pushes:
                return f"which instruction {index} would push, which is not fetched"
        return "which nobody pushes any more"

    def step(self, module: Module) -> None:
        """Run a module's next instruction; or, if it has run, push its tokens and remove it from the command queue."""
        index = self.commands[module][0]
        one, clock = self.program.instructions[index], self.clocks[module]
        if index in self.ended:
            for queue in one.pushes:
                self.tokens[queue].append(clock.copy())
            self.commands[module].popleft()
            self.fetch()
            return
        self.now = index
        self.ran[module].append(index)
        clock[MODULES.index(module)] += 1
        for queue in one.pops:
            np.maximum(clock, self.tokens[queue].popleft(), out=clock)
        self.execute(one)
        self.ended.add(index)

    def end(self) -> None:
        """Check at the end of a run that all instructions have run and that the queues are empty."""
        waiting = [queue[0] for queue in self.commands.values() if queue]
        if waiting or self.fetched < len(self.program.instructions):
            rows = [
                f"{m.value} waits for {self.obstacle(q[0])}, at instruction {q[0]}: {self.program.instructions[q[0]]}"
                for m, q in self.commands.items()
                if q
            ]
            if self.fetched < len(self.program.instructions):
                full = self.program.instructions[self.fetched].module.value
                rows.append(f"fetch waits for room among the commands of {full}, at instruction {self.fetched}")
            spots = {index: f"{self.program.instructions[index].module.value} waits here" for index in waiting}
            raise Deadlock(
                report(f"{self.program.name}: a deadlock", program=self.program.excerpt(spots, 1),
                       found="\n".join([*rows, self.queues_text()]))
            )  # fmt: skip
        if any(self.tokens.values()):
            raise ExecutionError(
                report(f"{self.program.name}: tokens are left over at the end", wanted="empty queues",
                       found=self.queues_text())
            )  # fmt: skip

    def queues_text(self) -> str:
        """Return the contents of the queues, as text: tokens, and waiting commands."""
        tokens = [f"{a.value}->{b.value}: {len(q)}" for (a, b), q in self.tokens.items()]
        commands = [f"{m.value}: {len(q)}" for m, q in self.commands.items()]
        return f"tokens    {', '.join(tokens)}\ncommands  {', '.join(commands)}"

    def fail(self, message: str) -> NoReturn:
        """Raise an error for the instruction that is running."""
        raise ExecutionError(self._text(message))

    def _text(self, message: str, others: Sequence[int] = ()) -> str:
        spots = {self.now: message, **dict.fromkeys(others, "the other one")}
        return report(
            f"{self.program.name}: instruction {self.now}: {message}",
            program=self.program.excerpt(spots),
            found=self.queues_text(),
        )

    # --- accesses ---------------------------------------------------------------------------------------------------

    def _module(self) -> Module:
        return self.program.instructions[self.now].module

    def touch(self, memory: Scratchpad | str, indices: Array, *, writes: bool) -> None:
        """Check an access, and record it."""
        shadow, module = self.shadows[memory], self._module()
        clock, place = self.clocks[module], MODULES.index(module)
        name = memory if isinstance(memory, str) else memory.word
        if not writes:
            never = shadow.written[indices] == 0
            if never.any():
                self.fail(f"reads {name}[{indices[np.argmax(never)]}], which was never written")
        if self.ordered:
            self._judge(shadow, name, indices, clock, writes)
        if writes:
            shadow.writer[indices] = place
            shadow.written[indices] = clock[place]
        else:
            shadow.read[place, indices] = clock[place]

    def _judge(self, shadow: _Shadow, name: str, indices: Array, clock: Array, writes: bool) -> None:
        """Raise an error if a conflicting access to one of the elements does not happen before this instruction."""
        did = "writes" if writes else "reads"
        late = shadow.written[indices] > clock[shadow.writer[indices]]
        if late.any():
            element = indices[np.argmax(late)]
            self._unordered(did, f"{name}[{element}]", int(shadow.writer[element]), shadow.written[element], "wrote")
        if writes:
            for place in range(len(MODULES)):
                late = shadow.read[place, indices] > clock[place]
                if late.any():
                    element = indices[np.argmax(late)]
                    self._unordered(did, f"{name}[{element}]", place, shadow.read[place, element], "read")

    def _unordered(self, did: str, element: str, place: int, number: int, other_did: str) -> NoReturn:
        other = self.ran[MODULES[place]][int(number) - 1]
        message = f"{did} {element}, which instruction {other} {other_did}, and no tokens order the two"
        raise Unordered(self._text(message, [other]), other, self.now)

    # --- instructions -----------------------------------------------------------------------------------------------

    def execute(self, one: isa.Instruction) -> None:
        """Apply an instruction to the memories."""
        if isinstance(one, isa.Load):
            self.load(one)
        elif isinstance(one, isa.Store):
            self.store(one)
        elif isinstance(one, isa.Gemm):
            self.gemm(one)
        elif isinstance(one, isa.Alu):
            self.alu(one)
        elif isinstance(one, isa.Finish):
            self.finish()

    def _grains(self, one: isa.Transfer) -> Array:
        """Return the grains of DRAM of each row; raise an error if they are outside of buffers."""
        each = self.config.element_bytes(one.memory) // self.grain
        firsts = np.array([first for first, _ in one.rows()], dtype=np.int64) * each
        grains = firsts[:, None] + np.arange(one.x_size * each)
        if grains.size:
            first, last = int(grains.min()) * self.grain, (int(grains.max()) + 1) * self.grain
            homes = [b for b in self.program.buffers if b.address <= first and last <= self._end(b)]
            if not homes:
                self.fail(f"bytes {first} to {last - 1} of DRAM are not within a buffer")
            if isinstance(one, isa.Store) and homes[0].role in ("input", "constant"):
                self.fail(f"overwrites {homes[0].name}, an {homes[0].role}")
        return grains.reshape(-1)

    def _end(self, b: isa.DramBuffer) -> int:
        return b.address + b.count * self.config.element_bytes(b.kind)

    def _elements(self, first: int, count: int, pad: Scratchpad) -> Array:
        """Return the indices of elements of a scratchpad; raise an error if they do not exist."""
        if count and first + count > len(self.pads[pad]):
            self.fail(f"elements {first} to {first + count - 1} of {pad.word}, which has {len(self.pads[pad])}")
        return np.arange(first, first + count)

    def load(self, one: isa.Load) -> None:
        """Copy rows from DRAM into a scratchpad, with padding around them."""
        options = self.config.options
        missing = (one.pad_least and not options.pad_value) or (one.memory is Scratchpad.ACC8 and not options.widen)
        if one.memory is Scratchpad.OUT or missing:
            self.fail("this machine cannot load that")
        grains = self._grains(one)
        rows, columns = one.written_shape
        elements = self._elements(one.sram, rows * columns, one.memory.held)
        self.touch("dram", grains, writes=False)
        raw = self.dram.reshape(-1, self.grain)[grains].reshape(-1)
        dtype, shape = self.config.dtype(one.memory), self.config.shape(one.memory)
        data = raw.view(dtype).reshape(one.y_size, one.x_size, *shape)
        above, below, left, right = one.pads
        frame = [(above, below), (left, right)] + [(0, 0)] * len(shape)
        least = np.iinfo(dtype).min if one.pad_least else 0
        whole = np.pad(data, frame, constant_values=least).reshape(rows * columns, *shape)
        if one.memory is Scratchpad.UOP:
            whole = self._unpacked(whole)
        self.touch(one.memory.held, elements, writes=True)
        self.pads[one.memory.held][elements] = whole

    def _unpacked(self, words: Array) -> Array:
        """Return the three indices of each micro-op."""
        dst, src, wgt = self._index_bits()
        numbers = words.astype(np.int64)
        parts = (numbers, numbers >> dst, numbers >> (dst + src))
        return np.stack([part & ((1 << bits) - 1) for part, bits in zip(parts, (dst, src, wgt), strict=True)], axis=-1)

    def store(self, one: isa.Store) -> None:
        """Copy registers to DRAM, reduced to their low bits."""
        if one.memory is not Scratchpad.OUT:
            self.fail(f"stores {one.memory.word}; only results are stored")
        elements, grains = self._elements(one.sram, one.elements, Scratchpad.ACC), self._grains(one)
        self.touch(Scratchpad.ACC, elements, writes=False)
        self.touch("dram", grains, writes=True)
        cut = micro_ops.wrapped(self.pads[Scratchpad.ACC][elements], self.config.dtype(Scratchpad.OUT))
        self.dram.reshape(-1, self.grain)[grains] = cut.reshape(-1).view(np.uint8).reshape(-1, self.grain)

    def _indices(self, one: isa.Loops, column: int, factors: tuple[int, int], pad: Scratchpad) -> Array:
        """Return one index of all micro-ops in the order in which they run: outer loop, inner loop, micro-op."""
        base = self.pads[Scratchpad.UOP][one.uop_begin : one.uop_end, column]
        outer, inner = np.arange(one.outer)[:, None, None], np.arange(one.inner)[None, :, None]
        indices = (outer * factors[0] + inner * factors[1] + base).reshape(-1)
        over = indices >= len(self.pads[pad])
        if over.any():
            name = ("dst", "src", "wgt")[column]
            self.fail(f"{name} is {indices[np.argmax(over)]}; {pad.word} has {len(self.pads[pad])} elements")
        return indices

    def _read_micro_ops(self, one: isa.Loops) -> None:
        if one.uop_end > len(self.pads[Scratchpad.UOP]):
            self.fail(f"micro-ops up to {one.uop_end}; there is room for {len(self.pads[Scratchpad.UOP])}")
        self.touch(Scratchpad.UOP, np.arange(one.uop_begin, one.uop_end), writes=False)

    def _distinct(self, indices: Array, pad: Scratchpad) -> Array:
        seen = np.zeros(len(self.pads[pad]), dtype=np.bool_)
        seen[indices] = True
        return np.flatnonzero(seen)

    def gemm(self, one: isa.Gemm) -> None:
        """Add matrix products to registers, or set registers to zero."""
        self._read_micro_ops(one)
        dst = self._indices(one, 0, one.dst_factors, Scratchpad.ACC)
        registers, acc = self._distinct(dst, Scratchpad.ACC), self.pads[Scratchpad.ACC]
        if one.reset:
            self.touch(Scratchpad.ACC, registers, writes=True)
            acc[registers] = 0
            return
        src = self._indices(one, 1, one.src_factors, Scratchpad.INP)
        wgt = self._indices(one, 2, one.wgt_factors, Scratchpad.WGT)
        for pad, indices in ((Scratchpad.INP, src), (Scratchpad.WGT, wgt)):
            self.touch(pad, self._distinct(indices, pad), writes=False)
        self.touch(Scratchpad.ACC, registers, writes=False)
        self.touch(Scratchpad.ACC, registers, writes=True)
        micro_ops.multiply_add(acc, self.pads[Scratchpad.INP], self.pads[Scratchpad.WGT], dst, src, wgt)

    def alu(self, one: isa.Alu) -> None:
        """Apply an operation to registers, one micro-op after the other."""
        self._read_micro_ops(one)
        dst = self._indices(one, 0, one.dst_factors, Scratchpad.ACC)
        src = None
        if one.immediate is None:
            src = self._indices(one, 1, one.src_factors, Scratchpad.ACC)
        operation = self._operation(one.op)
        changed = self._distinct(dst, Scratchpad.ACC)
        read = changed if src is None else self._distinct(np.concatenate([dst, src]), Scratchpad.ACC)
        self.touch(Scratchpad.ACC, read, writes=False)
        self.touch(Scratchpad.ACC, changed, writes=True)
        micro_ops.apply(self.pads[Scratchpad.ACC], operation, dst, src, one.immediate or 0)

    def _operation(self, op: AluOp) -> Any:
        bits = self.config.options.multiply_bits
        if (op is AluOp.MUL and not bits) or (op is AluOp.CLIP and not self.config.options.clip):
            self.fail(f"this machine's ALU has no {op.name}")
        return {
            AluOp.MIN: np.minimum,
            AluOp.MAX: np.maximum,
            AluOp.ADD: np.add,
            AluOp.SHR: micro_ops.shifted,
            AluOp.MUL: lambda a, b: micro_ops.signed(a, bits) * micro_ops.signed(b, bits),
            AluOp.CLIP: lambda a, b: np.maximum(np.minimum(a, b), -b),
        }[op]

    def finish(self) -> None:
        """Check that every store happens before the host reads the results."""
        if not self.ordered:
            return
        stores = [i for i, one in enumerate(self.program.instructions) if isinstance(one, isa.Store)]
        done = int(self.clocks[Module.COMPUTE][MODULES.index(Module.STORE)])
        if done < len(stores):
            message = f"the host reads the results, and no tokens order instruction {stores[done]} before"
            raise Unordered(self._text(message, [stores[done]]), stores[done], self.now)
