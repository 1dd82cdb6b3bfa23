"""`net.c`: the kernels of an executable, and the function that checks its arguments and runs the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...executable import ArenaSlice, BindSize, Dim, Loop
from ...executable.alignment import ALIGNMENT
from ...expr import Expr
from ...target import Target
from . import checks
from .failures import KINDS, Failures
from .header import reset_parameters
from .interface import Interface
from .kernels import CKernel
from .names import comment
from .sizes import SizeWriter, helper_text
from .steps import StepWriter, job_text
from .weights import Weights, locations


@dataclass(frozen=True)
class KernelText:
    """The kernels of a program as C: what comes before them (types, library functions), and each kernel.

    `stack_bytes` are the bytes of the local arrays of the kernel that has the most. `casts_to_unsigned` says whether a
    kernel casts floats to unsigned integers, which is undefined for negative numbers.
    """

    prelude: str
    kernels: Sequence[CKernel]
    stack_bytes: int
    casts_to_unsigned: bool


def program_text(api: Interface, weights: Weights, kernels: KernelText) -> str:
    """Return the text of the program."""
    failures = Failures(api.macro)
    run, used, shared = _run(api, weights, failures, kernels.kernels)
    plan, used_by_plan = _plan(api, failures) if api.sizes else ("", set())
    jobs = [job_text(api.executable.kernels[number], kernels.kernels[number].name) for number in sorted(shared)]
    body = "\n".join([plan, run])
    parts = [
        _head(api),
        kernels.prelude,
        *(kernel.text for kernel in kernels.kernels),
        *jobs,
        helper_text(used | used_by_plan) if "UNDEFINED" in body else "",
        _support(api, weights, body),
        plan,
        run,
        _reset(api, weights) if api.states else "",
        _error_text(api, failures),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts if part.strip())


def language(target: Target) -> str:
    """Return the version of C that a program for this CPU needs: vectors are aligned with a feature of C11."""
    return "C99" if target.is_scalar else "C11"


def _head(api: Interface) -> str:
    version, arena = language(Target(api.executable.target)), f"the arena under {api.macro}_STATIC_ARENA"
    return f"""\
/* {comment(api.executable.name)}, compiled by minitvm for {comment(api.executable.target)}.

   {version}, without memory allocation and without writable globals, except {arena}. */
#include "{api.name}.h"

#if !defined(__STDC_HOSTED__) || __STDC_HOSTED__
#include <string.h>
#else  /* compilers require these functions also where there is no C library */
int memcmp(const void *a, const void *b, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *memory, int byte, size_t bytes);
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the weights are little-endian"
#endif
"""


def _run(
    api: Interface, weights: Weights, failures: Failures, kernels: Sequence[CKernel]
) -> tuple[str, set[str], set[int]]:
    """Return the function that runs the program, the size helpers that it uses, and its kernels that threads share."""
    lines: list[str] = []
    writer = SizeWriter({}, lines, failures.returns(*checks.TOO_LARGE))
    steps = StepWriter(api, writer, failures, weights.offsets, kernels)
    writer.line(f"if (arguments == NULL) {failures.returns(*checks.NO_ARGUMENTS)}")
    _pointers(api, weights, writer)
    checks.read_scalars(api, writer, failures)
    checks.check_sizes(api, writer, failures, "arguments->sizes.")
    for guard in api.executable.guards:
        if not guard.sizes() & api.late_sizes.keys():
            checks.check_guard(writer, failures, guard)
    steps.check_sizes()
    checks.check_memory(api, writer, failures, weights)
    checks.check_bounds(api, writer, failures)
    writer.line("")
    steps.write()
    _shapes(api, writer, failures)
    writer.line("return 0;")
    text = "\n".join([f"int {api.name}_run({api.name}_arguments *arguments)", "{", *lines, "}", ""])
    return text, writer.helpers, steps.shared


def _pointers(api: Interface, weights: Weights, writer: SizeWriter) -> None:
    """Write the local variables for arena and weights, with their defaults."""
    if api.arena_bytes != 0:
        writer.line("unsigned char *arena = arguments->arena;")
        writer.line("size_t arena_bytes = arguments->arena_bytes;")
        if isinstance(api.arena_bytes, int):
            writer.lines += [
                f"#ifdef {api.macro}_STATIC_ARENA",
                "    if (arena == NULL) {",
                "        arena = static_arena;",
                "        arena_bytes = sizeof static_arena;",
                "    }",
                "#endif",
            ]
    elif any(isinstance(place, ArenaSlice) for place in locations(api.executable)):
        writer.line("unsigned char *const arena = (unsigned char *)nothing;")
    if weights.nbytes:
        writer.line("const unsigned char *weights = arguments->weights;")
        writer.line("size_t weights_bytes = arguments->weights_bytes;")
        if weights.linked:
            writer.line("if (weights == NULL) {")
            writer.line(f"    weights = {api.name}_weights;")
            writer.line(f"    weights_bytes = {api.macro}_WEIGHTS_BYTES;")
            writer.line("}")


def _shapes(api: Interface, writer: SizeWriter, failures: Failures) -> None:
    """Write the shapes of outputs that are not fixed."""
    for tensor in api.outputs:
        if not (tensor.is_open or tensor.late):
            continue
        for axis, dim in enumerate(tensor.spec.shape):
            extent = writer.number(dim)
            if tensor.late and isinstance(dim, Expr):
                text = f"{tensor.title}: the dimension {axis} is negative"
                writer.line(f"if ({extent} < 0) {failures.returns('DATA', text)}")
            writer.line(f"arguments->output_shape.{tensor.name}[{axis}] = {extent};")


def _plan(api: Interface, failures: Failures) -> tuple[str, set[str]]:
    """Return the function that computes the memory for a choice of sizes."""
    lines: list[str] = []
    writer = SizeWriter({}, lines, failures.returns(*checks.TOO_LARGE))
    writer.line(f"if (sizes == NULL || plan == NULL) {failures.returns(*checks.NO_ARGUMENTS)}")
    checks.check_sizes(api, writer, failures, "sizes->")
    for guard in api.executable.guards:
        if guard.sizes() <= api.sizes.keys():
            checks.check_guard(writer, failures, guard)
    StepWriter(api, writer, failures, {}, ()).check_sizes()
    needed: list[tuple[str, Dim]] = [("arena_bytes", api.arena_bytes)]
    needed += [(f"input_elements.{t.name}", t.elements) for t in api.input_tensors if t.is_open]
    needed += [(f"output_elements.{t.name}", t.elements) for t in api.outputs if t.is_open]
    for member, number in needed:
        writer.line(f"plan->{member} = {writer.number(number)};")
    writer.line("return 0;")
    head = f"int {api.name}_plan_memory(const {api.name}_sizes *sizes, {api.name}_plan *plan)"
    return "\n".join([head, "{", *lines, "}", ""]), writer.helpers


def _support(api: Interface, weights: Weights, body: str) -> str:
    """Return the small functions and tables that the run uses."""
    parts = []
    if weights.nbytes:
        rows = ", ".join(str(byte) for byte in weights.identity)
        parts.append(f"static const unsigned char identity[] = {{{rows}}};  /* the first bytes of the weights */")
    if api.arena_bytes != 0 and isinstance(api.arena_bytes, int):
        arena = f"static {api.macro}_ALIGNED unsigned char static_arena[{api.macro}_ARENA_BYTES];"
        parts.append(f"#ifdef {api.macro}_STATIC_ARENA\n{arena}\n#endif")
    if "nothing" in body or "present(" in body:
        parts.append(f"static {api.macro}_ALIGNED const unsigned char nothing[{ALIGNMENT}];  /* of empty tensors */")
    if "present(" in body:
        parts.append(_PRESENT)
    if "overlaps(" in body:
        parts.append(_OVERLAPS)
    if "share(" in body:
        parts.append(_SHARE.format(name=api.name))
    steps = api.executable.steps
    if any(isinstance(step, Loop | BindSize) for step in steps):
        parts.append(_LOAD)
    if any(isinstance(step, Loop) for step in steps):
        parts.append(_STORE)
    if "load_bool(" in body:
        parts.append(_LOAD_BOOL)
    if "copy_bytes(" in body:
        parts.append(_COPY)
    return "\n\n".join(parts) + "\n"


_PRESENT = """\
/* Return a pointer to the elements of a tensor, which is not NULL. */
static const void *present(const void *pointer)
{
    return pointer != NULL ? pointer : nothing;
}"""

_OVERLAPS = """\
struct range {
    const void *begin;
    int64_t bytes;
};

/* Whether one of the first `written` ranges overlaps another one of the `count` ranges. */
static int overlaps(const struct range *ranges, int written, int count)
{
    for (int i = 0; i < written; ++i)
        for (int j = i + 1; j < count; ++j) {
            const uintptr_t a = (uintptr_t)ranges[i].begin, b = (uintptr_t)ranges[j].begin;
            if (ranges[i].bytes > 0 && ranges[j].bytes > 0 && a < b + (uintptr_t)ranges[j].bytes
                && b < a + (uintptr_t)ranges[i].bytes)
                return 1;
        }
    return 0;
}"""

_SHARE = """\
/* Run a task on the caller's threads, or on this thread. */
static void share(const {name}_arguments *arguments, {name}_task *task, void *job)
{{
    if (arguments->parallel != NULL && arguments->threads > 1)
        arguments->parallel(task, job, arguments->threads, arguments->pool);
    else
        task(job, 0, 1);
}}"""

_LOAD = """\
static int64_t load_int64(const void *place)
{
    int64_t number;
    memcpy(&number, place, sizeof number);
    return number;
}"""

_STORE = """\
static void store_int64(void *place, int64_t number)
{
    memcpy(place, &number, sizeof number);
}"""

_LOAD_BOOL = """\
static int load_bool(const void *place)
{
    return *(const unsigned char *)place != 0;
}"""

_COPY = """\
static void copy_bytes(void *to, const void *from, int64_t bytes)
{
    if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
}"""


def _reset(api: Interface, weights: Weights) -> str:
    lines = ["if (state == NULL)", "    return;", "memset(state, 0, sizeof *state);"]
    if api.firsts:
        lines += ["if (weights == NULL)", f"    {f'weights = {api.name}_weights' if weights.linked else 'return'};"]
    for tensor, number in api.firsts:
        nbytes = api.executable.constants[number].data.nbytes
        source = f"(const unsigned char *)weights + {weights.offsets[number]}"
        lines.append(f"memcpy(state->{tensor.name}, {source}, {nbytes});")
    body = "\n".join(f"    {line}" for line in lines)
    return f"void {api.name}_reset({reset_parameters(api)})\n{{\n{body}\n}}\n"


def _error_text(api: Interface, failures: Failures) -> str:
    rows = ",\n".join(f"        {text}" for text in failures.table())
    return f"""\
const char *{api.name}_error_text(int status)
{{
    static const char *const texts[] = {{
{rows},
    }};
    if (status == 0)
        return "no error";
    const int kind = status & 15;
    if (status < 0 || kind < 1 || kind > {len(KINDS)} || (size_t)(status >> 4) >= sizeof texts / sizeof *texts)
        return "no status of {api.name}";
    return texts[status >> 4];
}}
"""
