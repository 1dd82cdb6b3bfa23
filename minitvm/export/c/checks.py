"""The checks before a run: sizes, pointers, memory, and the elements that the program relies on.

Each returns a status, so that no argument of the caller leads to undefined behaviour. A pointer to memory that is
smaller than its header says is the only mistake that C cannot detect.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...executable import Dim, Input
from ...executable.alignment import ALIGNMENT
from ...executable.nodes import Guard
from ...expr import Expr
from ...runtime.shapes import guard_text
from .failures import Failures
from .interface import CTensor, Interface, Scalar, dim_text
from .sizes import SizeWriter
from .weights import Weights

TOO_LARGE = ("SIZE", "the sizes are too large")
NO_ARGUMENTS = ("NULL", "the arguments are NULL")


def check_sizes(api: Interface, writer: SizeWriter, failures: Failures, sizes: str) -> None:
    """Read the sizes from the struct `sizes`, and check them and all dimensions."""
    for var, name in api.sizes.items():
        writer.names[var] = f"n_{name}"
        writer.line(f"const int64_t n_{name} = {sizes}{name};")
    for name in api.sizes.values():
        _refuse(writer, f"n_{name} < 0", failures.returns("SIZE", f"the size {name} is negative"))
    for tensor in (*api.input_tensors, *api.outputs):
        if not tensor.is_open:
            continue
        for dim in () if tensor.late else tensor.spec.shape:
            if isinstance(dim, Expr) and dim not in api.sizes:
                negative = f"{tensor.title}: the dimension {dim_text(dim)} is negative"
                _refuse(writer, f"{writer.number(dim)} < 0", failures.returns("SIZE", negative))
        nbytes = writer.number(tensor.elements * tensor.spec.dtype.bytes)
        large = f"{tensor.title}: its memory is too large"
        _refuse(writer, f"(uint64_t){nbytes} > SIZE_MAX / 2", failures.returns("SIZE", large))


def check_guard(writer: SizeWriter, failures: Failures, guard: Guard) -> None:
    """Check that both sides of a guard are equal."""
    left, right = writer.number(guard.left), writer.number(guard.right)
    text = f"{guard.where or 'the program'} does not take these sizes: {guard_text(guard)}"
    _refuse(writer, f"{left} != {right}", failures.returns("SIZE", text))


def read_scalars(api: Interface, writer: SizeWriter, failures: Failures) -> None:
    """Give the variables of scalar inputs their values, which are doubles or fit in an int64."""
    for scalar in api.inputs:
        if not isinstance(scalar, Scalar):
            continue
        dtype, place = scalar.spec.dtype, f"arguments->input.{scalar.name}"
        name = writer.names[scalar.spec.var] = f"n_{scalar.name}"
        if dtype.is_float:
            writer.line(f"const double {name} = {place};")
        else:
            if dtype == "uint64":
                large = failures.returns("SIZE", f"input {scalar.spec.name} is larger than 2^63 - 1")
                writer.line(f"if ({place} > INT64_MAX) {large}")
            writer.line(f"const int64_t {name} = (int64_t){place};")
        writer.line(f"(void){name};")


def check_memory(api: Interface, writer: SizeWriter, failures: Failures, weights: Weights) -> None:
    """Check the pointers of tensors, arena, weights and states, and that the written ones overlap nothing."""
    for tensor in (*api.input_tensors, *api.outputs):
        _check_tensor(tensor, writer, failures)
    if api.arena_bytes != 0:
        nbytes = writer.number(api.arena_bytes)
        _refuse(writer, f"{_positive(nbytes)}arena == NULL", failures.returns("NULL", "the arena is NULL"))
        _check_alignment("arena", "the arena", writer, failures)
        bytes_text = "NAME_plan_memory" if isinstance(api.arena_bytes, Expr) else f"{api.arena_bytes:,} bytes"
        text = f"the arena is too small; wanted: {bytes_text.replace('NAME', api.name)}"
        _refuse(writer, f"arena_bytes < (uint64_t){nbytes}", failures.returns("MEMORY", text))
        if isinstance(api.arena_bytes, Expr):
            writer.line("if (arena == NULL) arena = (unsigned char *)nothing;")
    if weights.nbytes:
        _refuse(writer, "weights == NULL", failures.returns("NULL", "the weights are NULL"))
        _check_alignment("weights", "the weights", writer, failures)
        other = "the weights belong to another program, or are incomplete"
        differ = f"weights_bytes != {weights.nbytes} || memcmp(weights, identity, sizeof identity) != 0"
        _refuse(writer, differ, failures.returns("WEIGHTS", other))
    if api.states:
        _refuse(writer, "arguments->state == NULL", failures.returns("NULL", "the state is NULL"))
        _check_alignment("arguments->state", "the state", writer, failures)
    _refuse(writer, "arguments->parallel != NULL && arguments->threads < 1", failures.returns(
        "THREADS", "the number of threads is not positive"
    ))  # fmt: skip
    written, read = (list(rows) for rows in zip(*_ranges(api, writer, weights), strict=True))
    rows = [row for row in (*written, *read) if row]
    count = len([row for row in written if row])
    if count == 0 or len(rows) < 2:
        return
    writer.line("const struct range ranges[] = {")
    for row in rows:
        writer.line(f"    {row},")
    writer.line("};")
    overlap = "outputs, arena and states may not overlap each other, the inputs or the weights"
    _refuse(writer, f"overlaps(ranges, {count}, {len(rows)})", failures.returns("OVERLAP", overlap))


def check_bounds(api: Interface, writer: SizeWriter, failures: Failures) -> None:
    """Check the elements of inputs and states on whose range the program relies."""
    for bound in api.executable.bounds:
        tensor = api.tensor(bound.place)
        low, high = writer.number(bound.low), writer.number(bound.high)
        place = f"arguments->{'input.' if isinstance(bound.place, Input) else 'state->'}{tensor.name}"
        limits = f"{dim_text(bound.low)} to {dim_text(bound.high)}"
        text = f"{bound.where}: wanted: {tensor.spec.name} from {limits}"
        element = f"(int64_t){place}[i]"
        writer.line(f"for (int64_t i = 0; i < {writer.number(tensor.elements)}; ++i)")
        writer.line(f"    if ({element} < {low} || {element} > {high}) {failures.returns('VALUE', text)}")


def _check_tensor(tensor: CTensor, writer: SizeWriter, failures: Failures) -> None:
    is_input = isinstance(tensor.place, Input)
    place = f"arguments->{'input' if is_input else 'output'}.{tensor.name}"
    if tensor.elements == 0:
        return
    elements = writer.number(tensor.elements)
    null = failures.returns("NULL", f"{tensor.title}: the pointer is NULL")
    _refuse(writer, f"{_positive(elements)}{place} == NULL", null)
    if tensor.spec.dtype.bytes > 1:
        unaligned = f"(uintptr_t){place} % sizeof *{place} != 0"
        text = f"{tensor.title}: the pointer is not a multiple of {tensor.spec.dtype.bytes} bytes"
        _refuse(writer, unaligned, failures.returns("ALIGNMENT", text))
    if tensor.is_open:
        count = f"arguments->{'input' if is_input else 'output'}_elements.{tensor.name}"
        text = f"{tensor.title}: the number of elements does not fit {tensor.shape_text}"
        _refuse(writer, f"{count} {'!=' if is_input else '<'} {elements}", failures.returns("MEMORY", text))


def _check_alignment(place: str, what: str, writer: SizeWriter, failures: Failures) -> None:
    text = f"{what}: the pointer is not a multiple of {ALIGNMENT} bytes"
    _refuse(writer, f"(uintptr_t){place} % {ALIGNMENT} != 0", failures.returns("ALIGNMENT", text))


def _ranges(api: Interface, writer: SizeWriter, weights: Weights) -> Iterator[tuple[str, str]]:
    """Yield the pointer and size of each memory: first if the program writes it, second if it only reads it."""
    yield "", ""

    def row(place: str, nbytes: Dim) -> str:
        return f"{{{place}, {writer.number(nbytes)}}}"

    for tensor in api.outputs:
        if tensor.elements != 0:
            yield row(f"arguments->output.{tensor.name}", _nbytes(tensor)), ""
    if api.arena_bytes != 0:
        yield row("arena", api.arena_bytes), ""
    if api.states:
        yield "{arguments->state, (int64_t)sizeof *arguments->state}", ""
    for tensor in api.input_tensors:
        if tensor.elements != 0:
            yield "", row(f"arguments->input.{tensor.name}", _nbytes(tensor))
    if weights.nbytes:
        yield "", row("weights", weights.nbytes)


def _nbytes(tensor: CTensor) -> Dim:
    return tensor.elements * tensor.spec.dtype.bytes


def _positive(number: str) -> str:
    """Return the beginning of a condition: that a number is positive, or nothing if it is a positive literal."""
    return "" if number.isdecimal() and int(number) > 0 else f"{number} > 0 && "


def _refuse(writer: SizeWriter, condition: str, failure: str) -> None:
    """Write the check that ends a run if a condition holds."""
    writer.line(f"if ({condition}) {failure}")
