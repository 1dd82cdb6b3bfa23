# %% [markdown]
# # A network as C
#
# A compiled network is data. It has kernels, constants, one block of memory that is planned in advance (the arena of
# lesson 20), and a list of steps. In this lesson we print this data as C: the result is a program that needs no Python,
# no library and no `malloc`, and it computes the same bits.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import minitvm
from lessons import drawings
from lessons.predict import predict
from minitvm.export import c
from minitvm.graph import Graph, GraphBuilder

# %% [markdown]
# ## The network
#
# Our network has two layers, which classify a reading of eight sensors. The network is small, so we can read all of its
# C text.


# %%
def classifier() -> Graph:
    """Eight numbers to the probabilities of three classes, with seeded weights."""
    b, rng = GraphBuilder("classifier"), np.random.default_rng(32)
    w1, w2 = (rng.standard_normal(shape).astype("float32") for shape in ((12, 8), (3, 12)))
    hidden = b.op("nn.relu", b.op("nn.dense", b.input("sensors", (1, 8)), w1))
    return b.build(b.op("nn.softmax", b.op("nn.dense", hidden, w2), axis=-1))


target = "cpu -model=cortex-m4"
executable = minitvm.lower(classifier(), target=target, stop_at="executable")
print(executable)

# %% [markdown]
# The target is a Cortex-M4, a microcontroller without vector registers. So the kernels compute one number at a time.
# Your computer cannot run code for this processor, but it can run the C text.
#
# Read the listing from the top: constants, the arena, kernels, and at the end the steps. Each step calls a kernel with
# places in memory. For example, `arena[0:0 + 48]` is a value of 48 bytes at the beginning of the arena.

# %%
(arena,) = executable.arenas
predict(
    "At most three values are needed at once: e^x of the three classes, the values from which it is computed, and one "
    "number. Each value begins at a multiple of 64 bytes. How many bytes does the arena have?",
    int(arena.size),
)
for value in arena.residents:
    end = value.offset + value.nbytes
    print(f"{value.name:<18} bytes {value.offset:>4} to {end:>4}, steps {value.first} to {value.last}")
print(f"the arena has {arena.size} bytes")

# %% [markdown]
# ## The C program
#
# `c.export` writes a folder. In this folder, `net.h` declares the functions and sizes that you need to run the network,
# and `net.c` has the kernels and the steps. The folder also has the weights, a C++ class, and a test.

# %%
folder = Path(tempfile.mkdtemp()) / "net"
inputs = {"sensors": np.linspace(-1, 1, 8, dtype="float32").reshape(1, 8)}
c.export(classifier(), folder, target=target, inputs=inputs)
for path in sorted(p for p in folder.rglob("*") if p.is_file()):
    print(f"{path.relative_to(folder)!s:<24} {len(path.read_bytes()):>6} bytes")

# %% [markdown]
# Here is a kernel. Compare it with the loops of lesson 00: apart from the types, it is the same program. Two details
# differ. `restrict` tells the C compiler that the arrays do not overlap, which minitvm has proved. And each product and
# sum is written as one `fma`, because otherwise a C compiler may choose whether the program rounds once or twice.

# %%
program = (folder / "net.c").read_text()


def function(name: str) -> str:
    """The text of a function of the program, from its first line to the brace that closes it."""
    lines = program.splitlines()
    start = next(k for k, line in enumerate(lines) if f" {name}(" in line and not line.endswith(";"))
    end = next(k for k in range(start, len(lines)) if lines[k] == "}")
    return "\n".join(lines[start : end + 1])


first = executable.kernels[0].name
print(function(first)[:1500])

# %% [markdown]
# And this is the function that runs the steps. It makes no decisions: it calls the kernels in a fixed order, with fixed
# places in memory. That is why the amount of memory is known before the program runs.

# %%
print(function("net_run"))

# %% [markdown]
# ## Compile it and run it
#
# `make check` in the folder compiles the program and a test. The test compares the result of the program with the
# result that minitvm computed.


# %%
def make(goal: str) -> str:
    """The last line that make prints."""
    here = ("CC=cc", "CXX=c++", "CFLAGS=-O2")  # for this computer, not for the Cortex-M4
    run = subprocess.run(
        ["make", "--no-print-directory", "-C", str(folder), goal, *here], capture_output=True, text=True, check=False
    )
    return (run.stdout if run.returncode == 0 else run.stderr).strip().splitlines()[-1]


if compiler := shutil.which("cc"):
    print(make("check"))
else:
    print("no C compiler on this computer: apt install gcc make")

# %% [markdown]
# ## Change it
#
# The program is yours now: open `net.c` and change a kernel, and `make check` shows whether the result changes. Here we
# compile the program for size instead, as you would for a microcontroller, and draw how many bytes each part takes. The
# weights are small, so they are a C array, which is linked with the program; larger weights become a file.

# %%
rows = {f"weights, {constant.name}": float(constant.data.nbytes) for constant in executable.constants}
rows |= {f"arena, {value.name}": float(value.nbytes) for value in arena.residents}
colours = [drawings.BLUE] * len(executable.constants) + [drawings.GREY] * len(arena.residents)
if compiler:
    run = subprocess.run(
        [compiler, "-std=c11", "-Os", "-c", "net.c", "-o", "small.o"], cwd=folder, capture_output=True, check=True
    )
    sizes = subprocess.run(["size", "small.o"], cwd=folder, capture_output=True, text=True, check=True).stdout.split()
    rows["code"] = float(sizes[6])
picture = drawings.bars(rows, "the memory of the program, in bytes", "bytes", [*colours, drawings.BLUE][: len(rows)])
print("the picture:", picture.save("memory"))

# %% [markdown]
# Weights and code, the blue bars, can stay in read-only memory. Only the arena is memory that the program writes. The
# values in the arena, the grey bars, share 192 bytes: three of these values begin at byte 0, one after another.
#
# ## Your turn
#
# In a debugger, `arena + 64` is only an address. Write a C type that gives each value of the plan a name: you write the
# declaration, and the C compiler checks the offsets.
#
#     minitvm lesson 36 --start     (writes exercise_36.py, for you to fill in)
#     minitvm lesson 36 --check
