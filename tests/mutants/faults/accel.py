"""Faults in the simulated accelerator: its bits and text, its interpreter, its rules, its cycles, its streams."""

from tests.machines.vta.test_verifier import (
    test_a_deadlock_through_a_full_command_queue,
    test_a_token_that_is_pushed_too_early,
    test_micro_ops_may_lie_anywhere,
)
from tests.reference.test_accel import (
    test_a_register_is_read_after_it_changed,
    test_each_operation_on_registers,
    test_products_in_bulk,
)

from ..patch import Faults
from ..streams import bits, by_hand, interpreted, layered, read_back, rules, timed, tokens

ENCODING = Faults("accel encoding", "minitvm.machines.vta.encoding", bits())
ENCODING.edit("an immediate has no sign", "_placed", 'signed=path == "immediate"', "signed=False")
ENCODING.edit(
    "weights lie before inputs", "fields", "_placed([[*head, (\"reset\", 1), *loops], [*dst, *src, *wgt]])",
    "_placed([[*head, (\"reset\", 1), *loops], [*dst, *wgt, *src]])",
)  # fmt: skip
ENCODING.edit("indices of a micro-op overlap", "encode_micro_op", "low += bits", "low += bits - 1")
ENCODING.edit("an ALU's immediate is lost", "value_of", "is not None)", "is None)")

TEXT = Faults("accel text", "minitvm.machines.vta.isa", [read_back()])
TEXT.edit("a frame without rows above is not printed", "Load.__str__", "if any(self.pads)", "if self.pads[0]")
TEXT.edit("a token to the next is not printed", "Instruction.tokens_text", '("prev", "next")', '("prev",)')

PLACES = Faults("accel places", "minitvm.machines.vta.assembler", [read_back()])
PLACES.edit("an offset in a buffer is lost", "_BufferOffset.element", "return first + self.offset", "return first")

ISA = Faults("accel isa", "minitvm.machines.vta.isa", [*timed(), interpreted()])
ISA.edit(
    "registers are loaded by the load module",
    "Load.module",
    "(Scratchpad.INP, Scratchpad.WGT)",
    "tuple(Scratchpad)[1:4]",
)
ISA.edit("the outer loop is not counted", "Loops.count", "self.outer * self.inner", "self.inner")

EARLY = by_hand("a token too early", test_a_token_that_is_pushed_too_early)
OPERATIONS = by_hand("operations of the ALU", test_each_operation_on_registers)
MEANING = Faults("accel meaning", "minitvm.reference.meaning.accelerator", [OPERATIONS, EARLY, interpreted(), tokens()])
MEANING.edit(
    "a store keeps what does not fit at the end of the range", "Machine.store",
    "cut = micro_ops.wrapped(self.pads[Scratchpad.ACC][elements], self.config.dtype(Scratchpad.OUT))",
    "cut = np.clip(self.pads[Scratchpad.ACC][elements], -128, 127).astype(self.config.dtype(Scratchpad.OUT))",
)  # fmt: skip
MEANING.edit(
    "a frame's sides change places", "Machine.load", "(above, below), (left, right)", "(below, above), (left, right)"
)
MEANING.edit("a frame is always zero", "Machine.load", "if one.pad_least else 0", "if False else 0")
MEANING.edit(
    "a row's stride is its length",
    "Machine._grains",
    "for first, _ in one.rows()",
    "for first in range(one.dram, one.dram + one.y_size * one.x_size, max(1, one.x_size))",
)
MEANING.edit(
    "loops change places",
    "Machine._indices",
    "outer * factors[0] + inner * factors[1]",
    "outer * factors[1] + inner * factors[0]",
)
MEANING.edit("who reads is forgotten", "Machine.touch", "shadow.read[place, indices] = clock[place]", "pass")
MEANING.edit("only what was written is judged", "Machine._judge", "if writes:", "if False:")
MEANING.edit(
    "a popped token tells nothing",
    "Machine.step",
    "np.maximum(clock, self.tokens[queue].popleft(), out=clock)",
    "self.tokens[queue].popleft()",
)
MEANING.edit("a token tells of the future too", "Machine.step", "append(clock.copy())", "append(clock)")
MEANING.edit("FINISH waits for nothing", "Machine.finish", "if done < len(stores):", "if False:")
MEANING.edit(
    "MUL multiplies whole registers",
    "Machine._operation",
    "micro_ops.signed(a, bits) * micro_ops.signed(b, bits)",
    "a * b",
)
MEANING.edit("CLIP has no lower end", "Machine._operation", "np.maximum(np.minimum(a, b), -b)", "np.minimum(a, b)")

CHANGED = by_hand("registers that changed", test_a_register_is_read_after_it_changed)
PRODUCTS = by_hand("products in bulk", test_products_in_bulk)
BULK = Faults("accel micro-ops", "minitvm.reference.fast.micro_ops", [CHANGED, OPERATIONS, PRODUCTS, interpreted()])
BULK.edit("sums begin anew", "_product", "acc[registers].astype(np.int64) + added", "added")
BULK.edit("all changes of a register are made at once", "apply", "np.arange(len(dst)) - np.repeat(first, counts)", "0")
BULK.edit("what changes is read before", "_reads_what_changes", "(changed[src] > own)", "(changed[src] > len(dst))")
BULK.edit("a negative shift goes right", "shifted", "values << amount", "values >> amount")

QUEUES = by_hand("a full command queue", test_a_deadlock_through_a_full_command_queue)
ORDERING = Faults("accel ordering", "minitvm.machines.vta.ordering", [rules(), EARLY, tokens(), interpreted()])
ORDERING.edit(
    "a popped token tells nothing",
    "ordering",
    "clock[:] = map(max, clock, queues[queue].popleft())",
    "queues[queue].popleft()",
)
ORDERING.edit("who reads is forgotten", "_Shadow.note", "self.read[module, touch.indices] = number", "pass")
ORDERING.edit("an earlier push is an order without its pop", "Ordering.before", ">= self.numbers[first]", ">= 0")
ORDERING.edit(
    "a full command queue has room", "ordering", "if len(target) >= config.command_depth:", "if False:", by=[QUEUES]
)

ANYWHERE = by_hand("micro-ops anywhere", test_micro_ops_may_lie_anywhere)
FOOTPRINT = Faults("accel footprint", "minitvm.machines.vta.footprint", [ANYWHERE, tokens(), rules(), interpreted()])
FOOTPRINT.edit(
    "a frame is not written",
    "in_scratchpad",
    "transfer.written_shape if isinstance(transfer, Load)",
    "(transfer.y_size, transfer.x_size) if isinstance(transfer, Load)",
)
FOOTPRINT.edit("inner factors are ignored", "MicroOps.triples", "(j * inner).T", "(j * 0).T")
FOOTPRINT.edit("micro-ops lie where they lay in DRAM", "MicroOps.load", "at = instruction.sram", "at = 0")

VERIFIER = Faults("accel verifier", "minitvm.machines.vta.verifier", [rules()])
VERIFIER.edit(
    "a last row may leave its buffer",
    "_dram",
    "one.dram + (one.y_size - 1) * one.x_stride + one.x_size",
    "one.dram + 1",
)
VERIFIER.edit("tokens may be left over", "_balance", "if pushes != pops:", "if pushes < pops:")
VERIFIER.edit("micro-ops need not be loaded", "_micro_ops", "if len(empty):", "if False:")

CHANNEL = Faults("accel channel", "minitvm.machines.scratchpad.channel", timed())
CHANNEL.edit("data come without latency", "Channel.ask", "self.free + self.dram.latency", "self.free")
CHANNEL.edit("requests are served at once", "Channel.ask", "max(now, self.free)", "now")
CHANNEL.edit(
    "any number of requests are on their way", "OngoingTransfer.ask", "< self.channel.dram.outstanding", "< 1000"
)
CHANNEL.edit("waiting for others counts as latency", "OngoingTransfer.spent", "start - waits_from", "0")

TIMING = Faults("accel timing", "minitvm.machines.vta.timing", timed())
TIMING.edit("rows are never joined", "requests", "or transfer.x_stride == transfer.x_size", "")
TIMING.edit(
    "two registers are read in one cycle", "_Unit._start", "pipelines.alu_two if one.immediate is None else 1", "1"
)
TIMING.edit("results leave the pipeline at once", "_Unit._start", '"pipeline": pipelines.gemm', '"pipeline": 0')
TIMING.edit("a frame is written behind the data", "_Unit._data_here", "max(0, self.started + frame - now)", "frame")
TIMING.edit(
    "commands are seen before they are sent", "_Unit._begin", "and now < self.simulation.fetch.next_at", "and False"
)
TIMING.edit("command queues have no end", "_Fetch.advance", ">= simulation.config.command_depth", ">= 1 << 30")
TIMING.edit("token queues have no end", "_Unit._push", ">= self.simulation.config.token_depth", ">= 1 << 30")
TIMING.edit("parts of an instruction overlap", "_Unit._end_at", "sum(work.values())", "max(work.values())")

STREAM = Faults("accel stream", "minitvm.machines.vta.stream", [layered(), interpreted()])
STREAM.edit(
    "the first of several is waited for",
    "Stream._add",
    "max(handle, latest.get(other, -1))",
    "min(handle, latest.get(other, 1 << 30))",
)
STREAM.edit(
    "what was waited for once is known for ever",
    "Stream._add",
    "self.waited.get((other, module), -1) >= handle",
    "(other, module) in self.waited",
)

LAYERS = Faults("accel layers", "minitvm.machines.vta.layers", [layered()])
LAYERS.edit(
    "a load does not wait for the products before",
    "_LayerWriter.load",
    "after = [] if context.computed is None else [context.computed]",
    "after = []",
)
LAYERS.edit(
    "registers are set to zero while they are stored",
    "_LayerWriter.compute",
    "[] if context.stored is None else [context.stored]",
    "[]",
)
LAYERS.edit("products do not wait for the load", "_LayerWriter.compute", "after=[loaded]", "after=[]")
LAYERS.edit(
    "the frame at the right is at the left",
    "_LayerWriter.load",
    "before, columns - before - x_size",
    "columns - before - x_size, before",
)
