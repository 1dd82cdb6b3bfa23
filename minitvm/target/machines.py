"""The kinds of machines. Each is a frozen description with its units; plug-ins add their kinds to the registry.

The fields of a description are the options of the target: `Target("cpu -vector_bits=256 -cores=4")` sets two of them.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import TargetError, nearest
from .isas import NATIVE, Isa, find_isa


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache level: its size in bytes, its ways, its line size in bytes, and the number of cores that share it."""

    size: int
    ways: int = 8
    line: int = 64
    shared_by: int = 1


FOR_PEOPLE = {"for people": True}  # marks a field on which no kernel depends
IMPLIED = "implied"  # the value that an identity leaves out, as the identities of older versions did
SCALAR_BITS = 32
_GHZ = 3.0  # used if a CPU's description does not say
_GPU_GHZ = 1.5


@dataclass(frozen=True, slots=True)
class CPU:
    """The description of a CPU for schedules and cost models.

    Widths are in bits, sizes in bytes, and the latency in cycles. `fma_ports` is the number of fused multiply-adds that
    start per cycle. `ghz` is 0 if unknown. The rates are in bytes per cycle and core: `l1_rate` for loads from the L1
    cache, and the others for streaming from the other caches and from memory (the defaults are those of Zen 3 and 5).

    `features` are the CPU features that schedules depend on, as Linux spells them. `isa` names the instructions that
    compilers may use, in `isas.ISAS`. A CPU of at most 32 bits is *scalar*: it has no vectors of any dtype.
    """

    name: str = "generic"
    vector_bits: int = 256
    vector_registers: int = 16
    fma_ports: int = 2
    fma_latency: int = 4
    has_fma: bool = True
    cores: int = 1
    ghz: float = field(default=0.0, metadata=FOR_PEOPLE)
    l1: Cache = field(default_factory=lambda: Cache(32 * 1024, 8))
    l2: Cache = field(default_factory=lambda: Cache(512 * 1024, 8))
    l3: Cache = field(default_factory=lambda: Cache(16 * 1024 * 1024, 16))
    features: tuple[str, ...] = ()
    l1_rate: int = 128
    l2_rate: float = 64.0
    l3_rate: float = 16.0
    memory_rate: float = 5.0
    isa: str = field(default=NATIVE, metadata={IMPLIED: NATIVE})

    @property
    def instruction_set(self) -> Isa:
        """The facts that compilers need: architecture, triple, flags."""
        return find_isa(self.isa)

    @property
    def vector_bytes(self) -> int:
        """The number of bytes in one vector register. It is 1 for a scalar CPU, whose vectors have one lane."""
        return 1 if self.vector_bits <= SCALAR_BITS else self.vector_bits // 8

    @property
    def loads(self) -> float:
        """The number of vector loads or broadcasts that a core sustains per cycle: two, or fewer if the L1 rate
        limits them.
        """
        return min(2.0, 8 * self.l1_rate / self.vector_bits)

    @property
    def cycle_seconds(self) -> float:
        """The duration of one predicted cycle in seconds.

        A `strategy` predicts the cycles of a single core, and all cores share the work.
        """
        return 1e-9 / (self.ghz or _GHZ) / max(1, self.cores)

    @property
    def near_bytes(self) -> int:
        """The number of bytes that can be read without going to the last-level cache: twice the L2 caches of all
        cores.
        """
        return 2 * self.l2.size * self.cores

    @property
    def chains(self) -> int:
        """The number of independent multiply-adds that must be in flight to keep the ports busy: latency times
        ports.
        """
        return self.fma_latency * self.fma_ports


@dataclass(frozen=True, slots=True)
class GPU:
    """The description of a GPU for schedules and cost models, including the limits of its thread blocks (OpenCL:
    work-groups).

    Memory is in bytes. `vector_bits` is the width of the widest load of one thread. `max_block_dim` is the largest
    number of threads in a block along each axis, and `max_grid_dim` the largest number of blocks; () allows any number.

    `vector_widths` lists the numbers of lanes that a vector may have; () allows any number. `local_memory_helps` says
    whether the storage that a block shares is faster than memory, and `has_shuffles` whether the threads of a warp can
    read each other's registers.

    `vector_registers` is for a processor, whose cores run the threads of a block one after the other, and load
    `l1_rate` bytes per cycle from the L1 cache; it is 0 for GPUs.

    In each cycle a multiprocessor starts one multiply-add in each of `lanes` lanes. It holds at most
    `threads_per_multiprocessor` threads and `shared_memory_per_multiprocessor` bytes of shared memory (0: as much as a
    block).

    Graphs store channels in blocks of `channel_block`, which are contiguous in memory (0: as many as a vector has
    lanes).

    `ghz` is 0 if unknown. `l2_bytes` is the size of the cache that all multiprocessors share.

    `on_host` lists operators, by their names in a graph, that must run on the host; see `lowering.placement`.

    Tensor cores multiply matrices of `matrix_dtypes` with sums in float32. "tfloat32" means float32 rounded to 10 bits
    of mantissa, which is used only if `allow_tf32` is set. `half_arithmetic` says that an OpenCL device adds and
    multiplies 16-bit floats (`cl_khr_fp16`), including denormal ones.
    """

    name: str = "generic"
    arch: str = ""
    warp_size: int = 32
    max_threads_per_block: int = 1024
    max_block_dim: tuple[int, ...] = (1024, 1024, 64)
    max_grid_dim: tuple[int, ...] = (2**31 - 1, 65535, 65535)
    max_shared_memory_per_block: int = 48 * 1024
    registers_per_block: int = 65536
    max_registers_per_thread: int = 255
    multiprocessors: int = 0
    vector_bits: int = 128
    local_memory_helps: bool = True
    vector_widths: tuple[int, ...] = ()
    has_shuffles: bool = True
    vector_registers: int = 0
    l1_rate: int = 128
    lanes: int = 64
    threads_per_multiprocessor: int = 1024
    shared_memory_per_multiprocessor: int = 0
    channel_block: int = 0
    matrix_dtypes: tuple[str, ...] = ()
    allow_tf32: bool = False
    half_arithmetic: bool = False
    on_host: tuple[str, ...] = field(default=(), metadata=FOR_PEOPLE)
    ghz: float = field(default=0.0, metadata=FOR_PEOPLE)
    l2_bytes: int = field(default=0, metadata=FOR_PEOPLE)

    @property
    def processor(self) -> CPU | None:
        """The device described as a CPU, for schedules and cost models. It is None for a GPU."""
        if not self.vector_registers:
            return None
        cores = max(1, self.multiprocessors)
        return CPU(self.name, self.vector_bits, self.vector_registers, cores=cores, ghz=self.ghz, l1_rate=self.l1_rate)

    @property
    def cycle_seconds(self) -> float:
        """The duration of one predicted cycle in seconds.

        A `strategy` predicts the cycles of one multiprocessor, and all multiprocessors are busy.
        """
        return 1e-9 / (self.ghz or _GPU_GHZ) if self.processor is None else self.processor.cycle_seconds

    @property
    def near_bytes(self) -> int:
        """The number of bytes that can be read without going to memory: the size of the shared cache."""
        return self.l2_bytes if self.processor is None else self.processor.near_bytes


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of target: its names (the first one is printed), its description class, and its presets by model name.

    `default` returns the description for a bare name, and `device` is the device that runs the code. If no model is
    named and the value of the option `model_of` is the name of a preset, that preset is used. A preset that depends on
    the machine that minitvm runs on is a function that returns the description.
    """

    names: tuple[str, ...]
    description: type
    default: Callable[[], Any]
    device: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    short: Mapping[str, str] = field(default_factory=dict)  # option spellings of other tools
    model_of: str = ""

    def preset(self, name: str) -> Any:
        """Return the description that a preset stands for."""
        described = self.presets[name]
        return described() if callable(described) else described


KINDS: dict[str, Kind] = {}
PLUG_INS = "minitvm.backends"  # the group of entry points
IN_A_FOLDER = "minitvm.machines"  # in this package: each module there is a machine, with its back end `BACKEND`


def register_kind(kind: Kind) -> Kind:
    """Add a kind of target and return it. Raises `TargetError` if one of its names is taken."""
    for name in kind.names:
        if name in KINDS:
            raise TargetError(f"target kind {name!r} is registered already")
    for name in kind.names:
        KINDS[name] = kind
    return kind


def find_kind(name: str) -> Kind:
    """Return the kind with this name. If there is none, raise a `TargetError` that lists the known names.

    If the name is unknown at first, the entry points of PLUG_INS of all installed distributions are imported.
    """
    if name not in KINDS:
        for machine in machines_in_folders():
            if machine.machine is not None and machine.kind not in KINDS:
                register_kind(machine.machine)
    if name not in KINDS:
        _import_plug_ins()
    if name not in KINDS:
        names = ", ".join(sorted(KINDS))
        hint = nearest(name, list(KINDS))
        guess = f"{hint} (known: {names})" if hint.startswith("did you mean") else f"known: {names}"
        raise TargetError(f"unknown target {name!r}; {guess}")
    return KINDS[name]


@functools.cache
def machines_in_folders() -> tuple[Any, ...]:
    """Return the back ends of the machines in IN_A_FOLDER, importing them on the first call.

    A folder without a back end contains code that several machines share.
    """
    folder = importlib.import_module(IN_A_FOLDER)
    modules = [importlib.import_module(f"{IN_A_FOLDER}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)]
    return tuple(module.BACKEND for module in modules if hasattr(module, "BACKEND"))


@functools.cache
def _import_plug_ins() -> None:
    from importlib.metadata import entry_points  # importing it at the top would double the import time of targets

    for entry in entry_points(group=PLUG_INS):
        try:
            entry.load()
        except Exception as error:
            raise TargetError(f"the back end {entry.value} of {PLUG_INS} cannot be imported: {error}") from error
