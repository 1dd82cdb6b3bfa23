# Written by `make docs` from the registered primitives (method_types.py).

from collections.abc import Callable, Sequence
from typing import Any

from minitvm.expr.nodes import Expr
from minitvm.tir.index_map import IndexMap
from minitvm.tir.nodes import Buffer
from minitvm.tir.schedule.handles import BlockRV, ExprRV, LoopRV
from minitvm.tir.tensor_intrin import TensorIntrin

class Methods:
    def annotate(self, block_or_loop: BlockRV | str | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Put a note on a loop or block, for lowering passes and tuners; the meaning of the program stays."""
    def unannotate(self, block_or_loop: BlockRV | str | LoopRV, ann_key: str) -> None:
        """Take a note off a loop or block."""
    def reorder_block_iter_var(self, block: BlockRV | str, new_order: Sequence[int]) -> None:
        """Permute the iterators of a block: the k-th is to be the one that was at `new_order[k]`."""
    def add_unit_loop(self, block_or_loop: BlockRV | str | LoopRV) -> LoopRV:
        """Put a loop of one iteration around a block or loop: something to bind to a thread axis, or to compute at."""
    def merge(self, *loops: LoopRV) -> LoopRV:
        """Make one loop of loops of neighbouring nests, and of those around them: one iteration does what each of them did."""
    def loop_partition(self, loop: LoopRV, factors: Sequence[int | Expr | None], preserve_unit_iters: bool = ...) -> list[LoopRV]:
        """Make consecutive loops of one, over as many iterations as the factors say; the rest makes one more."""
    def blockize(self, target: LoopRV | Sequence[BlockRV | str], preserve_unit_iters: bool = ...) -> BlockRV:
        """Make the subtree of a loop a block, with the block that stood there inside of it."""
    def cache_read(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str, consumer_blocks: Sequence[BlockRV | str] | None = ...) -> BlockRV:
        """Copy a buffer that a block reads into a buffer of another scope, and let the readers read the copy."""
    def cache_write(self, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str, consumer_blocks: Sequence[BlockRV | str] | None = ...) -> BlockRV:
        """Let a block write into a buffer of another scope, and copy from there to where it wrote before."""
    def compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = ..., index: int = ...) -> None:
        """Compute a producer below a loop of its consumers: in each iteration, the part that the consumers read there."""
    def reverse_compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = ..., index: int = ...) -> None:
        """Compute a consumer below a loop of its producers: in each iteration, what the part produced there suffices for."""
    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split the init of a reduction off, into loops of its own before the given loop."""
    def compute_inline(self, block: BlockRV | str) -> None:
        """Compute a producer's value wherever it is read, and store it nowhere."""
    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Compute a consumer where its only producer computes: the producer stores the consumer's value instead of its own."""
    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations of a loop on the threads of a team."""
    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations of a loop as the lanes of vector instructions."""
    def unroll(self, loop: LoopRV) -> None:
        """Write the iterations of a loop out, one after the other."""
    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Give a loop to an axis of the GPU's grid ("blockIdx.x"), of its blocks ("threadIdx.x"), or to virtual threads."""
    def split(self, loop: LoopRV, factors: Sequence[int | Expr | None], preserve_unit_iters: bool = ..., disable_predication: bool = ...) -> list[LoopRV]:
        """Split a loop into nested ones with the given extents, outermost first; one factor may be None."""
    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = ...) -> LoopRV:
        """Make one loop of consecutive ones."""
    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Permute loops of one nest: the given loops take, in the given order, the places that they have together."""
    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Make the extents of a block's iterators multiples of `padding`, with padded copies of what it reads and writes."""
    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a padding into a block that fills everything with the pad, before the loop, and one for what is inside."""
    def get_block(self, name: str, func_name: str | None = ...) -> BlockRV:
        """The block of that name, in the function that is worked on or in the named one."""
    def get_sblock(self, name: str, func_name: str | None = ...) -> BlockRV:
        """The block of that name, in the function that is worked on or in the named one."""
    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block, inside the block that it stands in, outermost first."""
    def get_child_blocks(self, block_or_loop: BlockRV | str | LoopRV) -> list[BlockRV]:
        """The blocks directly inside a block or loop, in program order."""
    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that write what this one reads, in program order."""
    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that read what this one writes, in program order."""
    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """The blocks of a scope that write a buffer which is not allocated in it."""
    def reduce_in_passes(self, block: BlockRV | str) -> list[BlockRV]:
        """Reduce the reference first, and then the sums that are relative to it."""
    def reindex(self, block: BlockRV | str, buffer: tuple[str, int] | Sequence[Any] | str | Buffer) -> BlockRV:
        """Let a block use a copy of a buffer whose indices are the block's iterators: those that index it, in their order."""
    def reindex_cache_read(self, block: BlockRV | str, read_buffer_index: int, storage_scope: str, index_map: IndexMap | Callable[..., Any]) -> BlockRV:
        """Copy what a block reads into a buffer of another scope, laid out as a map of the block's iterators says."""
    def reindex_cache_write(self, block: BlockRV | str, write_buffer_index: int, storage_scope: str, index_map: IndexMap | Callable[..., Any]) -> BlockRV:
        """Let a block write into a buffer of another scope, laid out as a map of its iterators says, and copy back."""
    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Reduce in two steps: partial results, one for each iteration of the loop, then their combination."""
    def rolling_buffer(self, block: BlockRV | str, write_buffer_index: int) -> None:
        """Keep what neighbouring iterations share, and compute only what is new."""
    def storage_align(self, block: BlockRV | str, buffer_index: int, axis: int, factor: int, offset: int) -> None:
        """Let the stride of one dimension of a buffer be `offset` modulo `factor`: rows no longer meet in one cache set"""
    def set_scope(self, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str) -> None:
        """Let a buffer live in another scope: "shared", "local", ... All who use it follow."""
    def tensorize(self, block_or_loop: BlockRV | str | LoopRV, tensor_intrin: str | TensorIntrin, preserve_unit_iters: bool = ...) -> None:
        """Replace the computation of a block, or of a loop's subtree, by an intrinsic that does the same."""
    def transform_layout(self, block: BlockRV | str, buffer: object, index_map: Callable[..., Any], pad_value: object = ..., *, assume_injective_transform: bool = ...) -> None:
        """Store a buffer in another layout: element `p` goes to `index_map(*p)`, for all who read and write it."""
    def transform_block_layout(self, block: BlockRV | str, index_map: Callable[..., Any]) -> None:
        """Iterate a block differently: it runs in new loops, whose iterations are `index_map` of the old ones."""
    def skip_zero_terms(self, loop: LoopRV, assume_finite: bool = ...) -> None:
        """Leave out the terms of a sum that are zero because a factor is, in all but every s-th iteration of the loop."""
    def annotate_buffer_access(self, block: BlockRV | str, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any]) -> None:
        """Declare which region of a buffer a block reads or writes, where that is to be more than its body shows."""
    def set_axis_separators(self, block: BlockRV | str, buffer: object, axis_separators: Sequence[int] | None) -> None:
        """Say which dimensions of a buffer become one dimension of memory each: those between two separators."""
    def set_axis_separator(self, block: BlockRV | str, buffer: object, axis_separators: Sequence[int] | None) -> None:
        """Say which dimensions of a buffer become one dimension of memory each: those between two separators."""
    def cache_index(self, block: BlockRV | str, storage_scope: str, cse_thresh: int = ...) -> list[BlockRV]:
        """Compute the indices at which a block loads beforehand, for all its iterations, and look them up."""
    def cache_inplace(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str) -> list[BlockRV]:
        """Let a block that updates a buffer in place work on a copy: copied in right before it, back right after it."""
    def fuse_reduction_epilogue(self, reduction_block: BlockRV | str, epilogue_block: BlockRV | str) -> None:
        """Let a reduction start from what its epilogue would combine with the result, and store the result itself."""
    def read_at(self, loop: LoopRV, block: BlockRV | str, read_buffer_index: int, storage_scope: str) -> BlockRV:
        """Copy what the blocks below a loop read of a buffer in one iteration, by one block at the start of the iteration."""
    def write_at(self, loop: LoopRV, block: BlockRV | str, write_buffer_index: int, storage_scope: str) -> BlockRV:
        """Let the blocks below a loop work on a copy of a buffer, copied back by one block at the end of each iteration."""
    def sample_categorical(self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = ...) -> ExprRV:
        """Choose one of the candidates, each as likely as its weight in `probs`; the decision is its position."""
    def sample_perfect_tile(self, loop: LoopRV, n: int, max_innermost_factor: int = ..., decision: Sequence[int] | None = ...) -> list[ExprRV]:
        """Choose n factors whose product is the extent of a loop, outermost first, the last at most `max_innermost_factor`."""
    def sample_partitioned_tile(self, loop: LoopRV, n: int, partition_pos: int = ..., innerpart_factor: int = ..., decision: Sequence[int] | None = ...) -> list[ExprRV]:
        """Choose n factors of a loop's extent; `innerpart_factor` divides the product of those from `partition_pos` on."""
    def sample_compute_location(self, block: BlockRV | str, decision: int | None = ...) -> LoopRV:
        """Choose where to compute a block: inline, where it is, or at a loop of its consumer; for `compute_at`."""
    def enter_postproc(self) -> None:
        """Mark in the trace where postprocessing begins: `remove_postproc` leaves out what follows."""
    def unsafe_set_dtype(self, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str) -> None:
        """Let a buffer hold numbers of another dtype: stores convert to it, loads convert back."""
