"""The code generation that all GPU languages share: the limits of a grid, and the storage that a block shares."""

from __future__ import annotations

from math import prod

from ....codegen.emitter import Emitter
from ....errors import InternalError, Unsupported, report
from ....expr import IntImm
from ....tir.analysis.dynamic_shared import SCOPE as DYNAMIC
from ....tir.analysis.threads import GRID, grid_of
from ....tir.nodes import Buffer, For
from ....tir.script.printer import script
from ....tir.transform.split_host import is_grid


class GridEmitter(Emitter):
    """Writes a kernel whose outermost loops are the grid that the host launches."""

    static_shared_bytes: int | None = None  # the most that the language declares, whatever the target has

    shared_bytes = 0  # of a block, so far
    declared_bytes = 0  # those among them that the kernel declares

    def check_grid(self) -> None:
        """Raise `Unsupported` for a grid inside of other loops, or one that is known to be too large for the target."""
        extents = [int(d.value) if isinstance(d, IntImm) else 1 for d in grid_of(self.kernel.body)]
        blocks, inner = extents[:3], extents[3:]
        threads, limit = prod(inner), getattr(self.target, "max_threads_per_block", None)
        if limit is not None and threads > limit:
            raise self.refusal(
                "a block of too many threads", f"at most {limit} threads in a block, the limit of the target",
                f"{' * '.join(map(str, inner))} = {threads}", "fewer iterations in the loops bound to threadIdx",
            )  # fmt: skip
        for index, numbers, limits in (
            ("threadIdx", inner, getattr(self.target, "max_block_dim", ())),
            ("blockIdx", blocks, getattr(self.target, "max_grid_dim", ())),
        ):
            for axis, number, most in zip("xyz", numbers, limits, strict=False):
                if number > most:
                    raise self.refusal(
                        f"too many iterations along {index}.{axis}", f"at most {most}, the limit of the target",
                        str(number), f"split the loop, and fuse the outer part with that bound to {index}.x",
                    )  # fmt: skip
        if inner and not is_grid(self.kernel.body):
            raise self.refusal(
                "a grid inside of another loop or condition", "loops bound to blockIdx and threadIdx outermost",
                type(self.kernel.body).__name__, "bind the outermost loop, or move the serial loop inside",
            )  # fmt: skip

    def refusal(self, what: str, wanted: str, found: str, advice: str) -> Unsupported:
        """Return the error for a kernel that the target cannot run."""
        program = script(self.kernel)
        head = f"{self.kernel.name} cannot become {self.language}: {what}"
        return Unsupported(report(head, program=program, wanted=wanted, found=found, tries=(advice,)))

    def axis(self, stmt: For) -> tuple[str, str]:
        """Return the index ("blockIdx" or "threadIdx") and the axis ("x", "y" or "z") of a loop over the grid."""
        if stmt.thread not in GRID:
            raise Unsupported(f"a loop over {stmt.thread} in {self.language}")
        index, axis = stmt.thread.split(".")
        return index, axis

    def count_shared(self, buffer: Buffer) -> int:
        """Return the number of elements of shared storage. Raises `Unsupported` if the block then uses more than the
        target has.
        """
        count, is_static = self.length(buffer), buffer.scope != DYNAMIC or self.static_shared_bytes is None
        limit = getattr(self.target, "max_shared_memory_per_block", None)
        self.shared_bytes += count * buffer.dtype.bytes
        self.declared_bytes += count * buffer.dtype.bytes if is_static else 0
        advice = "smaller tiles in the blocks that fill them"
        if limit is not None and self.shared_bytes > limit:
            raise self.refusal(
                "too much shared storage", f"at most {limit} bytes a block, the limit of the target",
                f"{self.shared_bytes} bytes up to {buffer.name}", advice,
            )  # fmt: skip
        most = self.static_shared_bytes
        if most is not None and self.declared_bytes > most:
            raise self.refusal(
                "too much shared storage", f"at most {most} bytes a block that the kernel declares itself",
                f"{self.declared_bytes} bytes up to {buffer.name}", f'scope "{DYNAMIC}", of which a launch gives more',
            )  # fmt: skip
        return count

    def length(self, buffer: Buffer) -> int:
        """Return the number of elements of storage inside of a kernel."""
        size = buffer.shape[0]
        if not isinstance(size, IntImm):
            raise InternalError(f"{buffer.name} has size {size}: storage in a kernel has a constant one")
        return size.value
