"""`net.hpp`: the C++17 class around a C program."""

from __future__ import annotations

from string import Template

from .interface import CTensor, Interface, Scalar, ctype
from .names import quoted
from .weights import Weights

_HEADER = Template("""\
// A C++17 class around ${name}.h: it owns the memory of a run.
#ifndef ${macro}_HPP
#define ${macro}_HPP

#include "${name}.h"

#include <cstdint>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace ${name} {

// A failure of the program or of a call. `status` is the status of a run, or 0.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string &text, int status = 0) : std::runtime_error(text), status(status) {}
    int status;
};

class Model {
public:
${constructor}

${set_size}\
    // Copy the elements of an input; T is ${input_types}.
    template <class T> void set_input(const std::string &name, const T *data, std::size_t count)
    {
${set_inputs}\
        throw Error("${name} has no input " + name);
    }
    template <class T> void set_input(const std::string &name, const std::vector<T> &values)
    {
        set_input(name, values.data(), values.size());
    }

    // Let threads share the work; see ${name}_parallel.
    void set_parallel(${name}_parallel *parallel, void *pool, std::int64_t threads)
    {
        arguments_.parallel = parallel;
        arguments_.pool = pool;
        arguments_.threads = threads;
    }

    // Run on the inputs. Throws Error.
    void run()
    {
${run}\
        require(${name}_run(&arguments_));
${shrink}\
    }

    // The elements of an output of the last run; T is ${output_types}.
    template <class T> const std::vector<T> &get_output(const std::string &name) const
    {
${get_outputs}\
        throw Error("${name} has no output " + name);
    }

    // The shape of an output of the last run.
    std::vector<std::int64_t> get_output_shape(const std::string &name) const
    {
${get_shapes}\
        throw Error("${name} has no output " + name);
    }
${reset}\

private:
    static void require(int status)
    {
        if (status != 0)
            throw Error(${name}_error_text(status), status);
    }
    template <class To, class From>
    static void assign(std::vector<To> &to, const char *name, const From *data, std::size_t count)
    {
        if constexpr (std::is_same_v<To, From>)
            to.assign(data, data + count);
        else
            throw Error(std::string(name) + ": wrong type of elements");
    }
    template <class T, class From> static const std::vector<T> &typed(const std::vector<From> &values, const char *name)
    {
        if constexpr (std::is_same_v<T, From>)
            return values;
        else
            throw Error(std::string(name) + ": wrong type of elements");
    }
    static void require_count(const char *name, std::size_t count, std::int64_t elements)
    {
        if (count != static_cast<std::size_t>(elements))
            throw Error(std::string(name) + ": " + std::to_string(count) + " elements, wanted "
                        + std::to_string(elements));
    }
    // The first multiple of the alignment in a block.
    static unsigned char *aligned(std::vector<unsigned char> &block, std::size_t bytes)
    {
        block.resize(bytes + ${macro}_ALIGNMENT);
        void *place = block.data();
        std::size_t space = block.size();
        return static_cast<unsigned char *>(std::align(${macro}_ALIGNMENT, bytes, place, space));
    }

${members}\
};

}  // namespace ${name}

#endif
""")


def hpp_text(api: Interface, weights: Weights) -> str:
    """Return the text of the C++ header."""
    return _HEADER.substitute(
        name=api.name, macro=api.macro, constructor=_constructor(api, weights), set_size=_set_size(api),
        input_types=_types(api.inputs), set_inputs=_set_inputs(api), run=_run(api, weights), shrink=_shrink(api),
        output_types=_types(api.outputs), get_outputs=_get_outputs(api), get_shapes=_get_shapes(api),
        reset=_reset(api), members=_members(api, weights),
    )  # fmt: skip


def _constructor(api: Interface, weights: Weights) -> str:
    if not weights.nbytes:
        return (
            "    Model() = default;\n    Model(const Model &) = delete;\n    Model &operator=(const Model &) = delete;"
        )
    begins = "{ reset(); }" if api.firsts else "= default;"
    linked = f"    Model() {begins}  // uses the weights in the program\n" if weights.linked else ""
    reset = "        reset();\n" if api.firsts else ""
    return f"""\
{linked}    // Reads the file of the weights. Throws Error.
    explicit Model(const std::string &path)
    {{
        std::ifstream file(path, std::ios::binary);
        unsigned char *place = aligned(weights_, {api.macro}_WEIGHTS_BYTES);
        if (!file.read(reinterpret_cast<char *>(place), {api.macro}_WEIGHTS_BYTES))
            throw Error(path + " cannot be read, or has fewer than " + std::to_string({api.macro}_WEIGHTS_BYTES)
                        + " bytes");
        arguments_.weights = place;
        arguments_.weights_bytes = {api.macro}_WEIGHTS_BYTES;
{reset}    }}
    Model(const Model &) = delete;
    Model &operator=(const Model &) = delete;"""


def _set_size(api: Interface) -> str:
    if not api.sizes:
        return ""
    rows = "".join(
        f"        if (name == {quoted(var.name)}) {{\n"
        f"            arguments_.sizes.{name} = value;\n"
        "            return;\n        }\n"
        for var, name in api.sizes.items()
    )
    return f"""\
    // Set an open size before the run.
    void set_size(const std::string &name, std::int64_t value)
    {{
{rows}\
        throw Error("{api.name} has no size " + name);
    }}
"""


def _types(tensors: list[CTensor] | list[CTensor | Scalar]) -> str:
    types = dict.fromkeys(ctype(t.spec.dtype) for t in tensors)
    return " or ".join(types) or "any type"


def _set_inputs(api: Interface) -> str:
    rows = []
    for t in api.inputs:
        name = quoted(t.spec.name)
        rows.append(f"        if (name == {name}) {{\n            assign(input_{t.name}_, {name}, data, count);\n")
        rows.append("            return;\n        }\n")
    if not rows:
        rows.append("        (void)data;\n        (void)count;\n")
    return "".join(rows)


def _run(api: Interface, weights: Weights) -> str:  # noqa: ARG001
    lines = []
    plan = bool(api.sizes)
    if plan:
        lines += [f"{api.name}_plan plan;", f"require({api.name}_plan_memory(&arguments_.sizes, &plan));"]
    for t in api.inputs:
        elements: object = 1
        if isinstance(t, CTensor):
            elements = f"plan.input_elements.{t.name}" if t.is_open else t.elements
        lines.append(f"require_count({quoted(t.spec.name)}, input_{t.name}_.size(), {elements});")
        if isinstance(t, Scalar):
            lines.append(f"arguments_.input.{t.name} = input_{t.name}_[0];")
            continue
        lines.append(f"arguments_.input.{t.name} = input_{t.name}_.data();")
        if t.is_open:
            lines.append(f"arguments_.input_elements.{t.name} = {elements};")
    for t in api.outputs:
        room = f"static_cast<std::size_t>(plan.output_elements.{t.name})" if t.is_open else str(t.elements)
        lines.append(f"output_{t.name}_.resize({room});")
        lines.append(f"arguments_.output.{t.name} = output_{t.name}_.data();")
        if t.is_open:
            lines.append(f"arguments_.output_elements.{t.name} = plan.output_elements.{t.name};")
    if api.arena_bytes != 0:
        nbytes = f"{api.macro}_ARENA_BYTES" if isinstance(api.arena_bytes, int) else "plan.arena_bytes"
        lines.append(f"arguments_.arena_bytes = static_cast<std::size_t>({nbytes});")
        lines.append("arguments_.arena = aligned(arena_, arguments_.arena_bytes);")
    if api.states:
        lines.append("arguments_.state = state_.get();")
    return "".join(f"        {line}\n" for line in lines)


def _shrink(api: Interface) -> str:
    return "".join(
        f"        output_{t.name}_.resize(elements(get_output_shape({quoted(t.spec.name)})));\n"
        for t in api.outputs
        if t.late
    )


def _get_outputs(api: Interface) -> str:
    rows = []
    for t in api.outputs:
        name = quoted(t.spec.name)
        rows.append(f"        if (name == {name})\n            return typed<T>(output_{t.name}_, {name});\n")
    return "".join(rows)


def _get_shapes(api: Interface) -> str:
    rows = []
    for t in api.outputs:
        if (t.is_open or t.late) and t.spec.shape:
            extents = [f"arguments_.output_shape.{t.name}[{axis}]" for axis in range(len(t.spec.shape))]
        else:
            extents = [str(dim) for dim in t.spec.shape]
        rows.append(f"        if (name == {quoted(t.spec.name)})\n            return {{{', '.join(extents)}}};\n")
    return "".join(rows)


def _reset(api: Interface) -> str:
    if not api.states:
        return ""
    passed = "state_.get(), arguments_.weights" if api.firsts else "state_.get()"
    return f"""
    // Reset the states, as before the first run.
    void reset() {{ {api.name}_reset({passed}); }}
"""


def _members(api: Interface, weights: Weights) -> str:
    lines = []
    if any(t.late for t in api.outputs):
        lines += [
            "static std::size_t elements(const std::vector<std::int64_t> &shape)",
            "{",
            "    std::size_t count = 1;",
            "    for (std::int64_t extent : shape)",
            "        count *= static_cast<std::size_t>(extent);",
            "    return count;",
            "}",
        ]
    lines.append(f"{api.name}_arguments arguments_{{}};")
    lines += [f"std::vector<{ctype(t.spec.dtype)}> input_{t.name}_;" for t in api.inputs]
    lines += [f"std::vector<{t.ctype}> output_{t.name}_;" for t in api.outputs]
    if weights.nbytes:
        lines.append("std::vector<unsigned char> weights_;")
    if api.arena_bytes != 0:
        lines.append("std::vector<unsigned char> arena_;")
    if api.states:
        lines.append(f"std::unique_ptr<{api.name}_state> state_ = std::make_unique<{api.name}_state>();")
    return "".join(f"    {line}\n" for line in lines)
