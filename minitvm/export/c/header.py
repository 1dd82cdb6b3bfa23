"""`net.h`: what a C program needs to know to run the network."""

from __future__ import annotations

from ...executable import Dim
from ...executable.alignment import ALIGNMENT
from ...expr import Expr
from .failures import KINDS
from .interface import CTensor, Interface, Scalar, ctype
from .names import comment, unique
from .weights import Weights


def header_text(api: Interface, weights: Weights, stack_bytes: int) -> str:
    """Return the text of the header. `stack_bytes` are the bytes of the kernels' arrays on the stack."""
    n, x = api.name, api.executable
    lines = [
        f"/* The interface of {comment(x.name)}, compiled by minitvm for {comment(x.target)}. */",
        f"#ifndef {api.macro}_H",
        f"#define {api.macro}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* Tensors are dense and row-major. Bools are bytes that are 0 or 1; 16-bit floats are their bits. */",
        *_tensor_macros(api),
        "",
        "/* Memory, in bytes. The arena, the weights and the states begin at a multiple of the alignment. */",
        f"#define {api.macro}_ALIGNMENT {ALIGNMENT}",
        "#if defined(__cplusplus)",
        f"#define {api.macro}_ALIGNED alignas({ALIGNMENT})",
        "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L",
        f"#define {api.macro}_ALIGNED _Alignas({ALIGNMENT})",
        "#else",
        f"#define {api.macro}_ALIGNED __attribute__((aligned({ALIGNMENT})))",
        "#endif",
    ]
    if isinstance(api.arena_bytes, int):
        lines.append(f"#define {api.macro}_ARENA_BYTES {api.arena_bytes}")
    lines.append(f"#define {api.macro}_WEIGHTS_BYTES {weights.nbytes}")
    lines.append(f"#define {api.macro}_STACK_BYTES {stack_bytes}  /* of arrays on the stack of each thread, at most */")
    if weights.linked:
        lines.append(
            f"extern const unsigned char {n}_weights[{api.macro}_WEIGHTS_BYTES];  /* linked with the program */"
        )
    lines += ["", *_errors(api)]
    if api.sizes:
        lines += ["", *_sizes(api)]
    if api.states:
        lines += ["", *_state(api)]
    lines += [
        "",
        "/* Runs task(context, thread, threads) once for each thread from 0 to threads - 1, in any order or at",
        "   the same time, and returns when all calls have returned. pool is the pointer in the arguments. */",
        f"typedef void {n}_task(void *context, int64_t thread, int64_t threads);",
        f"typedef void {n}_parallel({n}_task *task, void *context, int64_t threads, void *pool);",
        "",
        *_arguments(api, weights),
        "",
        f"/* Runs the network. Returns 0, or a status whose kind is {api.macro}_ERROR(status). */",
        f"int {n}_run({n}_arguments *arguments);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _tensor_macros(api: Interface) -> list[str]:
    lines = []
    for kind, tensors in (("INPUT", api.inputs), ("OUTPUT", api.outputs)):
        lines.append(f"#define {api.macro}_{kind}S {len(tensors)}")
        for name, tensor in zip(unique(t.name.upper() for t in tensors), tensors, strict=True):
            prefix = f"#define {api.macro}_{kind}_{name.rstrip('_')}"
            if isinstance(tensor, Scalar):
                continue
            lines.append(f"{prefix}_RANK {len(tensor.spec.shape)}")
            if not tensor.is_open and not tensor.late:
                lines.append(f"{prefix}_ELEMENTS {tensor.elements}")
            elif not tensor.is_open:
                lines.append(f"{prefix}_MOST_ELEMENTS {tensor.elements}")
    return lines


def _errors(api: Interface) -> list[str]:
    lines = ["/* The kinds of failures. After a failure, the contents of outputs are undefined. */", "enum {"]
    lines += [
        f"    {api.macro}_ERROR_{kind} = {number},  /* {meaning} */"
        for number, (kind, meaning) in enumerate(KINDS.items(), 1)
    ]
    return [
        *lines,
        "};",
        f"#define {api.macro}_ERROR(status) ((status) & 15)",
        "",
        "/* The text of a status: which tensor or operator, and why. Never NULL. */",
        f"const char *{api.name}_error_text(int status);",
    ]


def _sizes(api: Interface) -> list[str]:
    n = api.name
    lines = ["/* The sizes that you set. */", f"typedef struct {n}_sizes {{"]
    lines += [f"    int64_t {name};" for name in api.sizes.values()]
    lines += [
        f"}} {n}_sizes;",
        "",
        "/* The memory for a choice of sizes: the arena in bytes, and the number of elements of tensors. */",
        f"typedef struct {n}_plan {{",
        "    int64_t arena_bytes;",
        *_group("input_elements", [(f"int64_t {t.name}", t.shape_text) for t in api.input_tensors if t.is_open]),
        *_group("output_elements", [(f"int64_t {t.name}", t.shape_text) for t in api.outputs if t.is_open]),
        f"}} {n}_plan;",
        "",
        "/* Computes the plan. Returns 0, or a status if the program does not take these sizes. */",
        f"int {n}_plan_memory(const {n}_sizes *sizes, {n}_plan *plan);",
    ]
    return lines


def _state(api: Interface) -> list[str]:
    n = api.name
    lines = [
        "/* Values that a run leaves for the next run. Reset them before the first run. */",
        f"typedef struct {n}_state {{",
    ]
    for state in api.states:
        text = f"{api.macro}_ALIGNED {state.ctype} {state.name}[{max(1, _fixed(state.elements))}];"
        lines.append(f"    {text}  /* {comment(f'{state.spec.name}: {state.shape_text}')} */")
    lines += [f"}} {n}_state;", ""]
    if api.firsts:
        lines.append("/* The weights hold the first values of states: pass the same pointer as to a run. */")
    return [*lines, f"void {n}_reset({reset_parameters(api)});"]


def reset_parameters(api: Interface) -> str:
    """Return the parameters of the function that resets the states."""
    return f"{api.name}_state *state" + (", const void *weights" if api.firsts else "")


def _arguments(api: Interface, weights: Weights) -> list[str]:
    n = api.name
    lines = ["/* The arguments of a run. Set all of them to 0 first. */", f"typedef struct {n}_arguments {{"]
    if api.sizes:
        lines.append(f"    {n}_sizes sizes;")
    lines += _group("input", [_member(t, "const ") for t in api.inputs])
    lines += _group("output", [_member(t, "") for t in api.outputs])
    opened = [t for t in (*api.input_tensors, *api.outputs) if t.is_open]
    counts = {"input": api.input_tensors, "output": api.outputs}
    for kind, tensors in counts.items():
        members = [(f"int64_t {t.name}", "the elements of its memory") for t in tensors if t in opened]
        lines += _group(f"{kind}_elements", members)
    shapes = [t for t in api.outputs if (t.is_open or t.late) and t.spec.shape]
    members = [(f"int64_t {t.name}[{len(t.spec.shape)}]", "written by the run") for t in shapes]
    lines += _group("output_shape", members)
    if api.arena_bytes != 0:
        lines += ["    void *arena;  /* memory for intermediate results */", "    size_t arena_bytes;"]
    if weights.nbytes:
        optional = f"; NULL: {n}_weights" if weights.linked else f": the contents of {n}_weights.bin"
        lines += [f"    const void *weights;  /* {weights.nbytes} bytes{optional} */", "    size_t weights_bytes;"]
    if api.states:
        lines.append(f"    {n}_state *state;")
    lines += [
        f"    {n}_parallel *parallel;  /* NULL: one thread */",
        "    void *pool;  /* passed to parallel */",
        "    int64_t threads;  /* for parallel */",
        f"}} {n}_arguments;",
    ]
    return lines


def _group(name: str, members: list[tuple[str, str]]) -> list[str]:
    """Return a struct in a struct; C has no empty ones."""
    if not members:
        return []
    rows = [f"        {member};  /* {comment(about)} */" for member, about in members]
    return ["    struct {", *rows, f"    }} {name};"]


def _member(tensor: CTensor | Scalar, const: str) -> tuple[str, str]:
    if isinstance(tensor, Scalar):
        return f"{ctype(tensor.spec.dtype)} {tensor.name}", f"{tensor.spec.name}: {tensor.spec.dtype}"
    about = f"{tensor.spec.name}: {tensor.shape_text}"
    return f"{const}{tensor.ctype} *{tensor.name}", about


def _fixed(n: Dim) -> int:
    assert not isinstance(n, Expr)
    return n
