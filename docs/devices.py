"""The page of what runs where: for operators and dtypes the rule that schedules them on each target. `make docs`.

A cell is found as a build finds it: the first rule of the target's back end that matches the function and has a
candidate. So the page changes with the rules, and a target that no rule serves would show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CPU = "cpu -model=skylake-avx512"
TARGETS = {
    "cpu": CPU, "cuda sm_75": "cuda -arch=sm_75", "cuda sm_80 on": "cuda -arch=sm_80",
    "opencl amd": "opencl -device=amd", "intel": "opencl -device=intel", "mali": "opencl -device=mali",
    "adreno": "opencl -device=adreno", "pocl": "opencl -device=pocl",
}  # fmt: skip

HEAD = """\
# What runs where

`make docs` writes this page from the back ends' rules (`docs/devices.py`); do not edit it.

Every operator runs on every target except the simulated accelerators. If there is no special rule for an operator on a
GPU, the rule `fallback` computes it with one thread per element, or [the host runs
it](opencl.md#operators-on-the-host) if that is faster. Each cell names the rule that schedules the operator in a build
(`minitvm/strategy`). Rules in **bold** use tensor cores. The table is for medium-sized shapes; some rules decline
smaller shapes.

"""

CHECKED = """
## How each target is tested and measured

| target | kernel form | tests without the device | measurements |
|---|---|---|---|
| cpu | machine code, compiled by Numba | - | [yes](benchmarks.md): `python -m benchmarks` |
| cuda | Python text for Numba CUDA | interpreters and the oracle; a simulator ([`tests/machines/cuda/runtime/test_cuda.py`](../tests/machines/cuda/runtime/test_cuda.py)); warps, lane by lane ([`minitvm/machines/cuda/runtime/simulated_warps.py`](../minitvm/machines/cuda/runtime/simulated_warps.py)); registers, spills and shared memory in PTX and cubins for sm_75, 80, 90 and 90a ([`tests/machines/cuda/test_machine_code.py`](../tests/machines/cuda/test_machine_code.py)); a fake driver ([`tests/machines/cuda/runtime/fake_cuda.py`](../tests/machines/cuda/runtime/fake_cuda.py)) | yes, on an H100: [CUDA](cuda.md#measured-on-a-gpu) |
| opencl, amd, intel, mali, adreno | OpenCL C 1.2 | interpreters and the oracle; the same source on PoCL; checks for races and bounds under Oclgrind ([`tests/machines/opencl/test_oclgrind.py`](../tests/machines/opencl/test_oclgrind.py)) | none, because we have no such GPU |
| opencl, pocl | OpenCL C 1.2, on the CPU | the tests run on it | yes: `python -m benchmarks.opencl` |
| accel | assembly for the simulated accelerator ([accelerator](accel.md)), for products and convolutions in int8; with the options of later versions of VTA, also for sums, max pools and depthwise convolutions. The host runs all other operators | its interpreter, in several orders | [simulated cycles](accel.md#how-close-to-the-limit) |
| interpreter | TVMScript, run by the reference interpreter, without schedules | the other targets are compared with it | - |
| gemmini | assembly for a machine modelled on Gemmini ([accelerator](accel.md)), for products and convolutions in int8. The host runs all other operators | its interpreter, also in timeline order | [simulated cycles](accel.md#a-second-machine) |
"""  # noqa: E501


NAMED = """
## CPUs by name

`--target "cpu -arch=cortex-a76"` names a CPU; `-model=` and LLVM's `-mcpu=` mean the same. The name determines the
vector widths and cache sizes that schedules use, and the instructions that compilers may generate. You can override
each of these values, as in `"cpu -arch=cortex-m7 -l1=32768:4:32"`. `minitvm/target/models.py` and
`minitvm/target/isas.py` name the sources of the values.

You can lower and export for every CPU in this table: to [C or WebAssembly](deploy.md), or to source and assembly with
`minitvm show`. `minitvm run` and `minitvm.build` need a machine that has the instructions. For example, code for
`x86-64-v2` runs on every newer x86-64 CPU. `minitvm check` works for every CPU, because it compiles the kernels for
your machine. Kernels for a 32-bit CPU are *scalar*: they contain no vectors. For a microcontroller, the L2 column gives
the size of its SRAM.

`cpu` without a name is your machine, and `"cpu -width=256"` is your machine with narrower vectors.

"""


def named_cpus() -> str:
    """The table of CPUs that a target may name."""
    from minitvm.target import Target, find_kind

    lines = [
        "| `-arch=` | architecture | vectors | registers | L1, L2, L3 | options of gcc and clang |",
        "|---" * 6 + "|",
    ]
    for name in find_kind("cpu").presets:
        cpu = Target(f"cpu -arch={name}").description
        vectors = f"{cpu.vector_bits} bits" if cpu.vector_bytes > 1 else "none"
        caches = ", ".join(f"{cache.size // 1024} KB" if cache.size else "-" for cache in (cpu.l1, cpu.l2, cpu.l3))
        isa = cpu.instruction_set
        flags = " ".join(f"`{flag}`" for flag in isa.flags)
        lines.append(f"| `{name}` | {isa.architecture} | {vectors} | {cpu.vector_registers} | {caches} | {flags} |")
    return NAMED + "\n".join(lines) + "\n"


def functions() -> dict[tuple[str, str], Callable[[], Any]]:
    """A function of tensor expressions for each operator and dtype."""
    from minitvm import te, topi
    from minitvm.machines.simd.topi.blocked import conv2d_nchwc, depthwise_conv2d_nchwc

    def made(build: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32") -> Callable[[], Any]:
        def make() -> Any:
            inputs = [te.placeholder(shape, dtype, name=f"x{k}") for k, shape in enumerate(shapes)]
            return te.create_prim_func([*inputs, build(*inputs)])

        return make

    def product(out: str) -> Callable[..., Any]:
        return lambda a, b: topi.matmul(a, b, out_dtype=out)

    def convolved(out: str) -> Callable[..., Any]:
        return lambda x, w: topi.relu(conv2d_nchwc(x, w, padding=1, out_dtype=out))

    image, filters = (1, 8, 28, 28, 8), (8, 8, 3, 3, 8, 8)
    square = ((512, 512), (512, 512))
    return {
        ("matrix product", "float32"): made(product("float32"), *square),
        ("matrix product", "float32 as tf32, by `-allow_tf32`"): made(product("tfloat32"), *square),
        ("matrix product", "float16"): made(product("float32"), *square, dtype="float16"),
        ("matrix product", "bfloat16"): made(product("float32"), *square, dtype="bfloat16"),
        ("matrix product", "int8, sums in int32"): made(product("int32"), *square, dtype="int8"),
        ("convolution, 3 x 3", "float32"): made(convolved("float32"), image, filters),
        ("convolution, 3 x 3", "float32 as tf32, by `-allow_tf32`"): made(convolved("tfloat32"), image, filters),
        ("convolution, 3 x 3", "float16"): made(convolved("float32"), image, filters, dtype="float16"),
        ("convolution, 3 x 3", "bfloat16"): made(convolved("float32"), image, filters, dtype="bfloat16"),
        ("depthwise convolution", "float32"): made(
            lambda x, w: depthwise_conv2d_nchwc(x, w, padding=1), (1, 8, 28, 28, 8), (8, 3, 3, 8)
        ),
        ("pool", "float32"): made(lambda x: topi.max_pool2d(x, pool_size=3, strides=2), (1, 64, 28, 28)),
        ("softmax", "float32"): made(topi.softmax, (512, 1000)),
        ("sum of rows", "float32"): made(lambda x: topi.sum(x, axis=1), (512, 4096)),
        ("element by element", "float32"): made(topi.relu, (512, 512)),
    }


def rule_of(func: Any, target: Any) -> str:
    """The name of the first rule that has a candidate."""
    from minitvm.backend import lookup

    for rule in lookup(target, "rules")(target):
        if not rule.for_tuning and rule.matches(func) and next(iter(rule.propose(func, target)), None) is not None:
            return str(rule.name)
    return "loops as written"


def current() -> str:
    """The page."""
    from minitvm.target import Target

    columns = {name: Target(text) for name, text in TARGETS.items()}
    lines = [f"| operator | dtype | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for (operator, dtype), make in functions().items():
        func = make()
        cells = [rule_of(func, target) for target in columns.values()]
        cells = [f"**{cell}**" if cell == "tensor_core" else cell for cell in cells]
        lines.append(f"| {operator} | {dtype} | {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n" + named_cpus() + CHECKED
