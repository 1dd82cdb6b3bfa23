"""Facts about a CPU that compilers need: architecture, LLVM's triple, CPU and features, options of gcc and clang.

The description of a CPU names its row in `ISAS` in the field `isa`. "native" is the CPU of this machine, which has no
row: `host.native` describes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import TargetError, nearest

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Isa:
    """The instruction set for which machine code or C is generated.

    `architecture` is "x86_64", "aarch64", "arm", "riscv64" or "wasm32". `triple`, `cpu` and `features` are the
    arguments of LLVM's `createTargetMachine`; a `cpu` of "" is the one that LLVM detects. `features` lists the CPU
    features that kernels may use and the architecture's oldest CPUs lack, without the "+". `flags` are options of gcc
    and clang; clang must be given the triple too, as `--target=`.
    """

    architecture: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def attributes(self) -> str:
        """The features as LLVM reads them: "+avx2,+fma"."""
        return ",".join(f"+{name}" for name in self.features)

    @property
    def pointer_bits(self) -> int:
        """The number of bits of a pointer and of C's `size_t`."""
        return 32 if self.architecture in ("arm", "wasm32") else 64

    @property
    def is_bare(self) -> bool:
        """Whether programs run without an operating system, as on a microcontroller: they have no threads."""
        return "-none-" in self.triple


def find_isa(name: str) -> Isa:
    """Return the instruction set of this name. Raises `TargetError` for an unknown name, with the nearest ones."""
    if name == NATIVE:
        from .host import native

        return native()
    if name not in ISAS:
        raise TargetError(f"unknown instruction set isa={name!r}; {nearest(name, [NATIVE, *ISAS])}")
    return ISAS[name]


# The levels of x86-64: section 3.1.1 of the System V ABI for AMD64 ("Processor Architecture"), in LLVM's spelling.
_V2 = ("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# AMD's "Software Optimization Guide for the AMD Zen4 Microarchitecture", section 1.2.
_ZEN_4 = (
    "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512bitalg", "avx512vpopcntdq", "avx512bf16", "gfni",
    "vaes", "vpclmulqdq",
)  # fmt: skip


def _x86(cpu: str, features: tuple[str, ...]) -> Isa:
    return Isa("x86_64", "x86_64-unknown-linux-gnu", cpu, features, (f"-march={cpu}",))


def _aarch64(cpu: str, features: tuple[str, ...]) -> Isa:
    return Isa("aarch64", "aarch64-unknown-linux-gnu", cpu, features, (f"-mcpu={cpu}",))


def _thumb(cpu: str, unit: str, features: tuple[str, ...]) -> Isa:
    """Return the instruction set of a Cortex-M: Thumb-2 of ARMv7E-M, with floating-point arguments in registers."""
    flags = (f"-mcpu={cpu}", "-mthumb", f"-mfpu={unit}", "-mfloat-abi=hard")
    return Isa("arm", "thumbv7em-none-unknown-eabihf", cpu, features, flags)


# CPU names and features are LLVM's (llvm/lib/Target/*/*Processors.td); gcc has the same names. ARM's features are those
# of its technical reference manuals.
ISAS: dict[str, Isa] = {
    "x86-64": _x86("x86-64", ()),
    "x86-64-v2": _x86("x86-64-v2", _V2),
    "x86-64-v3": _x86("x86-64-v3", _V3),
    "x86-64-v4": _x86("x86-64-v4", _V4),
    "haswell": _x86("haswell", _V3),
    "skylake-avx512": _x86("skylake-avx512", _V4),
    "znver3": _x86("znver3", _V3),
    # gcc knows the name from version 12.3 on.
    "znver4": replace(
        _x86("znver4", (*_V4, *_ZEN_4)), flags=("-march=x86-64-v4", *(f"-m{feature}" for feature in _ZEN_4))
    ),
    "cortex-a53": _aarch64("cortex-a53", ("neon",)),
    "cortex-a72": _aarch64("cortex-a72", ("neon",)),
    "cortex-a76": _aarch64("cortex-a76", ("neon", "dotprod", "fullfp16", "lse")),
    "cortex-m4": _thumb("cortex-m4", "fpv4-sp-d16", ("dsp", "vfp4d16sp")),
    "cortex-m7": _thumb("cortex-m7", "fpv5-d16", ("dsp", "fp-armv8d16")),
    # RVA23: the profile whose CPUs must have version 1.0 of the vector extension, with registers of at least 128 bits.
    "riscv64-v": Isa(
        "riscv64", "riscv64-unknown-linux-gnu", "generic-rv64", ("m", "a", "f", "d", "c", "v"),
        ("-march=rv64gcv", "-mabi=lp64d"),
    ),
    # WebAssembly 3.0, whose relaxed SIMD has a multiply-add (f32x4.relaxed_madd).
    "wasm": Isa(
        "wasm32", "wasm32-unknown-unknown", "generic", ("simd128", "relaxed-simd", "bulk-memory"),
        ("-msimd128", "-mrelaxed-simd", "-mbulk-memory"),
    ),
}  # fmt: skip
