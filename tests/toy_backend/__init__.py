"""A back end in one folder: kernels in plain Python over NumPy, taken step by step by one thread.

It is made of what `minitvm` offers to everybody, and no file of the package knows it. Importing it registers it. Where
a distribution names it as an entry point of the group `minitvm.backends`, the name of the target is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitvm.backend import Backend, register
from minitvm.target import Kind


@dataclass(frozen=True)
class Toy:
    """The machine: NumPy's vectors may be as long as we like, and each costs about the same."""

    name: str = "toy"
    vector_bits: int = 512 * 32


BACKEND = register(
    Backend(
        kind="toy",
        machine=Kind(names=("toy",), description=Toy, default=Toy, device="toy"),
        layouts=f"{__name__}.schedule:layouts",
        rules=f"{__name__}.schedule:rules",
        passes=f"{__name__}.schedule:PASSES",
        language="numpy",
        generate=f"{__name__}.source:generate",
        program=f"{__name__}.program:Program",
    )
)
