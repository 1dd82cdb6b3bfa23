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
        """Annotate a loop or block for lowering passes and tuners; the meaning of the program does not change."""
    def unannotate(self, block_or_loop: BlockRV | str | LoopRV, ann_key: str) -> None:
        """Remove an annotation from a loop or block."""
    def reorder_block_iter_var(self, block: BlockRV | str, new_order: Sequence[int]) -> None:
        """Permute the iterators of a block: the new iterator k is the old iterator `new_order[k]`."""
    def add_unit_loop(self, block_or_loop: BlockRV | str | LoopRV) -> LoopRV:
        """Put a loop with one iteration around a block or loop, so that you can bind that loop or compute blocks at it."""
    def merge(self, *loops: LoopRV) -> LoopRV:
        """Merge the loops of neighbouring nests: one iteration of the new loop does the work of one iteration of each."""
    def loop_partition(self, loop: LoopRV, factors: Sequence[int | Expr | None], preserve_unit_iters: bool = ...) -> list[LoopRV]:
        """Partition a loop into consecutive loops of `factors` iterations each; the remaining iterations form one more."""
    def blockize(self, target: LoopRV | Sequence[BlockRV | str], preserve_unit_iters: bool = ...) -> BlockRV:
        """Turn the subtree of a loop into a block that contains the old block."""
    def cache_read(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str, consumer_blocks: Sequence[BlockRV | str] | None = ...) -> BlockRV:
        """Copy a buffer that a block reads into a buffer of another scope, and make the readers use the copy."""
    def cache_write(self, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str, consumer_blocks: Sequence[BlockRV | str] | None = ...) -> BlockRV:
        """Make a block write into a buffer of another scope, and copy the result to the original buffer."""
    def compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = ..., index: int = ...) -> None:
        """Compute a producer below a loop of its consumers: each iteration computes the elements that it needs."""
    def reverse_compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = ..., index: int = ...) -> None:
        """Compute a consumer below a loop of its producers: an iteration computes each element whose inputs are ready."""
    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Move the init of a reduction into its own loops before `loop`."""
    def compute_inline(self, block: BlockRV | str) -> None:
        """Compute a producer's value wherever it is read, instead of storing it."""
    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Compute a consumer inside its only producer, which then stores the consumer's value instead of its own."""
    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations of a loop in parallel on a team of threads."""
    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations of a loop as the lanes of vector instructions."""
    def unroll(self, loop: LoopRV) -> None:
        """Write out the iterations of a loop one after another."""
    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to an axis of the GPU's grid ("blockIdx.x"), of its blocks ("threadIdx.x"), or to virtual threads."""
    def split(self, loop: LoopRV, factors: Sequence[int | Expr | None], preserve_unit_iters: bool = ..., disable_predication: bool = ...) -> list[LoopRV]:
        """Split a loop into nested loops with the extents `factors`, outermost first; one factor may be None."""
    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = ...) -> LoopRV:
        """Fuse consecutive nested loops into one loop."""
    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Permute loops of a nest: they take the same positions as before, in the order in which you pass them."""
    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Pad the extents of a block's iterators to multiples of `padding`, and use padded copies of its buffers."""
    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a padding block in two: the first fills the buffer with the pad value, the second computes the rest."""
    def get_block(self, name: str, func_name: str | None = ...) -> BlockRV:
        """Return the block called `name` in the function `func_name` or, by default, in the function that you work on."""
    def get_sblock(self, name: str, func_name: str | None = ...) -> BlockRV:
        """Return the block called `name` in the function `func_name` or, by default, in the function that you work on."""
    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """Return the loops around a block, up to the block that contains it, outermost first."""
    def get_child_blocks(self, block_or_loop: BlockRV | str | LoopRV) -> list[BlockRV]:
        """Return the outermost blocks inside a block or loop, in program order."""
    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """Return the blocks in the same scope that write buffers read by this block, in program order."""
    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """Return the blocks in the same scope that read buffers written by this block, in program order."""
    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """Return the blocks of a scope that write a buffer not allocated in the scope; it is an error if there are none."""
    def reduce_in_passes(self, block: BlockRV | str) -> list[BlockRV]:
        """Reduce in two passes: first the reference, such as a maximum, and then the sums that are relative to it."""
    def reindex(self, block: BlockRV | str, buffer: tuple[str, int] | Sequence[Any] | str | Buffer) -> BlockRV:
        """Make a block use a copy of a buffer that is indexed directly by the block's iterators, in their order."""
    def reindex_cache_read(self, block: BlockRV | str, read_buffer_index: int, storage_scope: str, index_map: IndexMap | Callable[..., Any]) -> BlockRV:
        """Copy a buffer that a block reads into another scope, in a layout given by a map of the block's iterators."""
    def reindex_cache_write(self, block: BlockRV | str, write_buffer_index: int, storage_scope: str, index_map: IndexMap | Callable[..., Any]) -> BlockRV:
        """Make a block write into another scope, in a layout given by a map of its iterators, and copy the result back."""
    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Reduce in two steps: compute a partial result for each iteration of the loop, and then combine them."""
    def rolling_buffer(self, block: BlockRV | str, write_buffer_index: int) -> None:
        """Keep the elements that consecutive iterations share, and compute only the new elements."""
    def storage_align(self, block: BlockRV | str, buffer_index: int, axis: int, factor: int, offset: int) -> None:
        """Make the stride of a dimension equal `offset` modulo `factor`, so that rows use different cache sets."""
    def set_scope(self, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str) -> None:
        """Move a buffer to another scope, such as "shared" or "local". All blocks that use it are changed accordingly."""
    def tensorize(self, block_or_loop: BlockRV | str | LoopRV, tensor_intrin: str | TensorIntrin, preserve_unit_iters: bool = ...) -> None:
        """Replace the computation of a block or loop by an intrinsic that computes the same values."""
    def transform_layout(self, block: BlockRV | str, buffer: object, index_map: Callable[..., Any], pad_value: object = ..., *, assume_injective_transform: bool = ...) -> None:
        """Store a buffer in another layout: element `p` moves to `index_map(*p)`, and all blocks that use it are updated."""
    def transform_block_layout(self, block: BlockRV | str, index_map: Callable[..., Any]) -> None:
        """Run a block in new loops: `index_map` maps each old iteration to a new one."""
    def skip_zero_terms(self, loop: LoopRV, assume_finite: bool = ...) -> None:
        """Skip the terms of a sum that are zero because a factor is nonzero only in every s-th iteration of the loop."""
    def annotate_buffer_access(self, block: BlockRV | str, buffer_index: int, buf_type: str, gen_new_ranges: Callable[..., Any]) -> None:
        """Declare that a block reads or writes a larger region of a buffer than its body accesses."""
    def set_axis_separators(self, block: BlockRV | str, buffer: object, axis_separators: Sequence[int] | None) -> None:
        """Set the separators of a buffer: the dimensions between two separators become one dimension of memory."""
    def set_axis_separator(self, block: BlockRV | str, buffer: object, axis_separators: Sequence[int] | None) -> None:
        """Set the separators of a buffer: the dimensions between two separators become one dimension of memory."""
    def cache_index(self, block: BlockRV | str, storage_scope: str, cse_thresh: int = ...) -> list[BlockRV]:
        """Compute the indices of a block's loads in advance, for all its iterations, and look them up in the block."""
    def cache_inplace(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str) -> list[BlockRV]:
        """Make a block update a copy of a buffer, which is filled right before the block and copied back right after it."""
    def fuse_reduction_epilogue(self, reduction_block: BlockRV | str, epilogue_block: BlockRV | str) -> None:
        """Fuse an epilogue, such as a bias, into a reduction: the reduction starts from the value that the epilogue adds."""
    def read_at(self, loop: LoopRV, block: BlockRV | str, read_buffer_index: int, storage_scope: str) -> BlockRV:
        """At the start of each iteration of a loop, copy the part of a buffer that the blocks below the loop read."""
    def write_at(self, loop: LoopRV, block: BlockRV | str, write_buffer_index: int, storage_scope: str) -> BlockRV:
        """Make the blocks below a loop write to a copy of a buffer, which is copied back at the end of each iteration."""
    def sample_categorical(self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = ...) -> ExprRV:
        """Choose one of the candidates at random, with the probabilities `probs`. The decision is the candidate's position."""
    def sample_perfect_tile(self, loop: LoopRV, n: int, max_innermost_factor: int = ..., decision: Sequence[int] | None = ...) -> list[ExprRV]:
        """Choose n factors of a loop's extent, outermost first. The last factor is at most `max_innermost_factor`."""
    def sample_partitioned_tile(self, loop: LoopRV, n: int, partition_pos: int = ..., innerpart_factor: int = ..., decision: Sequence[int] | None = ...) -> list[ExprRV]:
        """Choose n factors of a loop's extent. `innerpart_factor` divides the product of factors `partition_pos` to n - 1."""
    def sample_compute_location(self, block: BlockRV | str, decision: int | None = ...) -> LoopRV:
        """Choose a place for a block, for `compute_at`: inline, where it is now, or a loop around its consumer."""
    def enter_postproc(self) -> None:
        """Mark the beginning of postprocessing in the trace; `remove_postproc` removes the steps after it."""
    def unsafe_set_dtype(self, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str) -> None:
        """Change the dtype of a buffer: stores convert to the new dtype, and loads convert back."""
