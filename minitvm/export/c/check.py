"""`check.c` and its data: a program that runs a C program on stored inputs and compares it with stored outputs."""

from __future__ import annotations

from .example import CheckData
from .interface import Interface, Scalar
from .weights import Weights


def check_files(api: Interface, weights: Weights, example: CheckData) -> dict[str, bytes]:
    """Return the files of the test by name: the program, the inputs, and the outputs of each run."""
    files = {"check.c": check_text(api, weights, example).encode()}
    for number, array in enumerate(example.inputs):
        files[f"check/input_{number}.bin"] = array.tobytes()
    for run, outputs in enumerate(example.runs):
        for number, array in enumerate(outputs):
            files[f"check/output_{number}_run_{run}.bin"] = array.tobytes()
    return files


def check_text(api: Interface, weights: Weights, example: CheckData) -> str:
    """Return the text of the test."""
    n = api.name
    floats = dict.fromkeys(str(t.spec.dtype) for t in api.outputs if t.spec.dtype.is_float)
    lines = [
        "/* Runs the program on the inputs in check/ and compares the outputs with those that minitvm computed. */",
        f'#include "{n}.h"',
        "",
        "#include <math.h>",
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "#include <string.h>",
        "",
        _SUPPORT.format(tolerance=repr(example.tolerance)),
        *(_VALUES[dtype] for dtype in floats),
        "int main(void)",
        "{",
        f"    static {n}_arguments arguments;",
        "    int wrong = 0;",
        *[f"    arguments.sizes.{name} = {example.sizes[var]};" for var, name in api.sizes.items()],
    ]
    for number, t in enumerate(api.inputs):
        array = example.inputs[number]
        path = f'"check/input_{number}.bin"'
        if isinstance(t, Scalar):
            lines.append(f"    memcpy(&arguments.input.{t.name}, contents({path}, {array.nbytes}), {array.nbytes});")
            continue
        lines.append(f"    arguments.input.{t.name} = contents({path}, {array.nbytes});")
        if t.is_open:
            lines.append(f"    arguments.input_elements.{t.name} = {array.size};")
    if api.sizes:
        lines += [f"    {n}_plan plan;", f"    require({n}_plan_memory(&arguments.sizes, &plan), {n}_error_text);"]
    for t in api.outputs:
        room = f"plan.output_elements.{t.name}" if t.is_open else str(t.elements)
        lines.append(f"    {t.ctype} *{_local(t.name)} = room({room} * (int64_t)sizeof({t.ctype}));")
        lines.append(f"    arguments.output.{t.name} = {_local(t.name)};")
        if t.is_open:
            lines.append(f"    arguments.output_elements.{t.name} = {room};")
    if api.arena_bytes != 0:
        lines += [
            f"    arguments.arena_bytes = (size_t){_arena(api)};",
            "    arguments.arena = room((int64_t)arguments.arena_bytes);",
        ]
    if weights.nbytes and not weights.linked:
        lines += [
            f"    arguments.weights_bytes = {api.macro}_WEIGHTS_BYTES;",
            f'    arguments.weights = contents("{n}_weights.bin", {api.macro}_WEIGHTS_BYTES);',
        ]
    if api.states:
        passed = "arguments.state, arguments.weights" if api.firsts else "arguments.state"
        lines += [f"    arguments.state = room(sizeof({n}_state));", f"    {n}_reset({passed});"]
    for run, outputs in enumerate(example.runs):
        lines.append(f"    require({n}_run(&arguments), {n}_error_text);")
        for number, (t, array) in enumerate(zip(api.outputs, outputs, strict=True)):
            path = f'"check/output_{number}_run_{run}.bin"'
            lines += _shape_check(t.name, t.is_open or t.late, array.shape)
            value = f"{t.spec.dtype}_value" if t.spec.dtype.is_float else "NULL"
            expected = f"contents({path}, {array.nbytes}), {array.size}, {t.spec.dtype.bytes}, {value}"
            lines.append(f"    wrong += compare({number}, {_local(t.name)}, {expected});")
    lines += ["    free_all();", "    return verdict(wrong);", "}", ""]
    return "\n".join(lines)


def _local(name: str) -> str:
    return f"output_{name}"


def _arena(api: Interface) -> str:
    return f"{api.macro}_ARENA_BYTES" if isinstance(api.arena_bytes, int) else "plan.arena_bytes"


def _shape_check(name: str, varies: bool, shape: tuple[int, ...]) -> list[str]:
    if not varies:
        return []
    return [f"    wrong += arguments.output_shape.{name}[{axis}] != {extent};" for axis, extent in enumerate(shape)]


_SUPPORT = """\
/* How much floats may differ, as a part of the largest element of their output; 0: not at all. */
static const double tolerance = {tolerance};
static double largest_difference = -1.0;  /* that was allowed, as such a part; -1: all bits were equal, but for NaNs */

static struct block {{
    struct block *next;
}} *blocks;  /* all memory, the last one first */

/* Return memory of at least `bytes` bytes at a multiple of 64. */
static void *room(int64_t bytes)
{{
    struct block *block = calloc(sizeof *block + (size_t)bytes + 64, 1);
    if (block == NULL)
        exit(2);
    block->next = blocks;
    blocks = block;
    unsigned char *memory = (unsigned char *)(block + 1);
    return memory + (64 - (uintptr_t)memory % 64) % 64;
}}

static void free_all(void)
{{
    while (blocks != NULL) {{
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }}
}}

/* Return the contents of a file. */
static void *contents(const char *path, int64_t bytes)
{{
    void *memory = room(bytes);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(memory, 1, (size_t)bytes, file) != (size_t)bytes) {{
        fprintf(stderr, "%s cannot be read\\n", path);
        exit(2);
    }}
    fclose(file);
    return memory;
}}

static void require(int status, const char *(*text)(int))
{{
    if (status == 0)
        return;
    fprintf(stderr, "status %d: %s\\n", status, text(status));
    exit(2);
}}

/* Compare an output with the expected elements. Without a function for their values, elements must be equal. */
static int compare(
    int output, const void *results, const void *expected, int64_t count, size_t size, double (*value)(const void *))
{{
    const unsigned char *a = results, *b = expected;
    double largest = 0.0;
    int64_t different = 0;
    for (int64_t i = 0; value != NULL && i < count; ++i) {{
        const double x = fabs(value(b + (size_t)i * size));
        largest = isfinite(x) && x > largest ? x : largest;
    }}
    for (size_t at = 0; at < (size_t)count * size; at += size) {{
        int same = memcmp(a + at, b + at, size) == 0;
        if (!same && value != NULL) {{
            const double x = value(a + at), y = value(b + at), part = x == y ? 0.0 : fabs(x - y) / largest;
            same = isnan(x) && isnan(y);
            if (tolerance > 0.0 && part <= tolerance) {{
                same = 1;
                largest_difference = fmax(largest_difference, part);
            }}
        }}
        different += !same;
    }}
    if (different > 0)
        printf("output %d: %lld of %lld elements differ\\n", output, (long long)different, (long long)count);
    return different > 0;
}}

/* Print what the comparisons showed, and return the status of the program. */
static int verdict(int wrong)
{{
    if (wrong > 0)
        puts("WRONG");
    else if (largest_difference < 0.0)
        puts("equal, bit for bit");
    else
        printf("within %g of the largest element: largest difference %.2g of it\\n", tolerance, largest_difference);
    return wrong > 0;
}}
"""

# The functions that return the value of an element, by dtype.
_VALUES = {
    "float32": """\
static double float32_value(const void *place)
{
    float number;
    memcpy(&number, place, sizeof number);
    return (double)number;
}
""",
    "float64": """\
static double float64_value(const void *place)
{
    double number;
    memcpy(&number, place, sizeof number);
    return number;
}
""",
    "bfloat16": """\
static double bfloat16_value(const void *place)
{
    uint16_t half;
    memcpy(&half, place, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return (double)number;
}
""",
    "float16": """\
static double float16_value(const void *place)
{
    uint16_t bits;
    memcpy(&bits, place, sizeof bits);
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double number = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31)
        number = fraction != 0 ? (double)NAN : (double)INFINITY;
    return bits >> 15 ? -number : number;
}
""",
}
