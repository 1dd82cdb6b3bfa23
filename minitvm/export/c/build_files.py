"""The files that build a C program: `Makefile`, `CMakeLists.txt`, and the example of the C++ class."""

from __future__ import annotations

from ...target import Target
from .interface import CTensor, Interface
from .names import quoted
from .program import language
from .weights import Weights

# The compiler and the program that runs its programs elsewhere, by architecture; others are compiled on the machine.
_CROSS = {
    "aarch64": ("aarch64-linux-gnu-", "qemu-aarch64 -L /usr/aarch64-linux-gnu"),
    "riscv64": ("riscv64-linux-gnu-", "qemu-riscv64 -L /usr/riscv64-linux-gnu"),
}
_BARE = {"arm": "arm-none-eabi-"}  # as `_CROSS`, without an operating system


def makefile(api: Interface, weights: Weights, target: Target) -> str:
    """Return the Makefile for a CPU."""
    n, isa = api.name, target.instruction_set
    if isa.is_bare:
        return _bare_makefile(api, weights, target)
    flags = " ".join(["-O3", *isa.flags])
    prefix, runner = _CROSS.get(isa.architecture, ("", ""))
    cross = ""
    if prefix:
        cross = (
            f"ifeq ($(origin CC), default)\nCC = {prefix}gcc\nendif\n"
            f"ifeq ($(origin CXX), default)\nCXX = {prefix}g++\nendif\n"
        )
    objects = " ".join(["$(NAME).o", *(["$(NAME)_weights.o"] if weights.linked else [])])
    return f"""\
# make          build the example
# make check    run the program on stored inputs, and compare its outputs with those that minitvm computed
NAME = {n}
CFLAGS ?= {flags}
CXXFLAGS ?= -O2
# Products and sums are never contracted: results do not depend on the compiler.
C = $(CC) -std={language(target).lower()} -Wall -Wextra -Wno-psabi -ffp-contract=off $(CFLAGS)
CXX17 = $(CXX) -std=c++17 -Wall -Wextra $(CXXFLAGS)
{cross}# The program that runs the test; empty: this machine does.
RUN ={runner and " " + runner}

.PHONY: all check clean
all: example

example: example.cpp $(NAME).hpp $(NAME).h {objects}
\t$(CXX17) $(LDFLAGS) -o $@ example.cpp {objects} -lm

check: check_$(NAME)
\t$(RUN) ./check_$(NAME)

check_$(NAME): check.c $(NAME).h {objects}
\t$(C) $(LDFLAGS) -o $@ check.c {objects} -lm

$(NAME).o: $(NAME).c $(NAME).h
\t$(C) -c -o $@ $(NAME).c
{_weights_rule(weights)}
clean:
\trm -f *.o example check_$(NAME)
"""


def _bare_makefile(api: Interface, weights: Weights, target: Target) -> str:
    """Return the Makefile for a microcontroller: its objects, and a test on the machine that compiles them."""
    isa = target.instruction_set
    sources = ["$(NAME).c"]
    if weights.linked:
        sources.append(f"$(NAME)_weights.{'S' if weights.form == 'incbin' else 'c'}")
    objects = " ".join(source.rpartition(".")[0] + ".o" for source in sources)
    return f"""\
# make          compile the network for {target.name}, and print its size: text is code and constants
# make check    run the program on this machine on stored inputs, and compare its outputs with minitvm's
NAME = {api.name}
CROSS = {_BARE[isa.architecture]}
CFLAGS ?= {" ".join(["-Os", *isa.flags])}
HOST_CFLAGS ?= -O2
# Products and sums are never contracted: results do not depend on the compiler.
C = -std={language(target).lower()} -Wall -Wextra -ffp-contract=off

.PHONY: all check clean
all: {objects}
\t$(CROSS)size {objects}

%.o: %.c $(NAME).h
\t$(CROSS)gcc $(C) $(CFLAGS) -c -o $@ $<

%.o: %.S
\t$(CROSS)gcc $(CFLAGS) -c -o $@ $<

check: check_$(NAME)
\t./check_$(NAME)

check_$(NAME): check.c $(NAME).h {" ".join(sources)}
\t$(CC) $(C) $(HOST_CFLAGS) -o $@ check.c {" ".join(sources)} -lm

clean:
\trm -f *.o check_$(NAME)
"""


def _weights_rule(weights: Weights) -> str:
    if not weights.linked:
        return ""
    if weights.form == "incbin":
        return "\n$(NAME)_weights.o: $(NAME)_weights.S $(NAME)_weights.bin\n\t$(CC) -c -o $@ $(NAME)_weights.S\n"
    return "\n$(NAME)_weights.o: $(NAME)_weights.c $(NAME).h\n\t$(C) -c -o $@ $(NAME)_weights.c\n"


def cmake_text(api: Interface, weights: Weights, target: Target) -> str:
    """Return the CMake project: the library, the example, and the test."""
    n = api.name
    languages = "C CXX ASM" if weights.linked and weights.form == "incbin" else "C CXX"
    sources = [f"{n}.c"]
    if weights.linked:
        sources.append(f"{n}_weights.{'S' if weights.form == 'incbin' else 'c'}")
    options = ";".join(["-ffp-contract=off", "-Wno-psabi", "-O3", *target.instruction_set.flags])
    return f"""\
cmake_minimum_required(VERSION 3.13)
project({n} {languages})
set(CMAKE_C_STANDARD {language(target).removeprefix("C")})
set(CMAKE_CXX_STANDARD 17)
set({api.macro}_FLAGS "{options}" CACHE STRING "flags of the compiler for {n}.c")

add_library({n} STATIC {" ".join(sources)})
target_include_directories({n} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_compile_options({n} PRIVATE $<$<COMPILE_LANGUAGE:C>:${{{api.macro}_FLAGS}}>)
target_link_libraries({n} PUBLIC m)

add_executable({n}_example example.cpp)
target_link_libraries({n}_example {n})

enable_testing()
add_executable(check_{n} check.c)
target_link_libraries(check_{n} {n})
add_test(NAME check_{n} COMMAND check_{n} WORKING_DIRECTORY ${{CMAKE_CURRENT_SOURCE_DIR}})
"""


def example_cpp(api: Interface, weights: Weights, sizes: dict[str, int]) -> str:
    """Return a small program that uses the C++ class: it reads raw inputs, runs, and prints the outputs."""
    n = api.name
    argument = f'"{n}_weights.bin"' if weights.nbytes and not weights.linked else ""
    model = f"        {n}::Model model{f'({argument})' if argument else ''};"
    rows = [model]
    rows += [f"        model.set_size({quoted(name)}, {value});" for name, value in sizes.items()]
    for number, t in enumerate(api.inputs):
        kind = t.ctype if isinstance(t, CTensor) else _scalar(t.spec.dtype)
        rows.append(f'        model.set_input({quoted(t.spec.name)}, read<{kind}>("check/input_{number}.bin"));')
    rows.append("        model.run();")
    rows += [
        f"        print({quoted(t.spec.name)}, model.get_output<{t.ctype}>({quoted(t.spec.name)}));"
        for t in api.outputs
    ]
    read = _READ if api.inputs else ""
    return f"""\
// Runs {n} on the inputs in check/ and prints the beginning of each output.
#include "{n}.hpp"

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

{read}template <class T> void print(const std::string &name, const std::vector<T> &values)
{{
    std::cout << name << ": " << values.size() << " elements:";
    for (std::size_t i = 0; i < values.size() && i < 8; ++i)
        std::cout << ' ' << +values[i];
    std::cout << '\\n';
}}

int main()
{{
    try {{
{chr(10).join(rows)}
    }} catch (const std::exception &error) {{
        std::cerr << error.what() << '\\n';
        return 1;
    }}
}}
"""


def _scalar(dtype: object) -> str:
    from ...expr import DType
    from .interface import ctype

    return ctype(DType(dtype))


_READ = """\
// The contents of a file as elements.
template <class T> std::vector<T> read(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty())
        std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char *>(values.data()));
    return values;
}

"""
