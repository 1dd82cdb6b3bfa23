"""Faults in instructions, in asynchronous copies, and in the products that tensor cores compute."""

from tests.runtime.test_tile_products import test_on_this_cpu

from ..patch import Faults
from ..seeded import INSTRUCTIONS, TENSOR_CORES
from ..streams import by_hand

STAGES = Faults("asynchronous stages", "minitvm.tir.transform.asynchronous_stages", [INSTRUCTIONS])
STAGES.edit("a part waits for one group less", "Copies.of_step", "step > max(needed)", "step >= max(needed)")
STAGES.edit("nobody waits", "Copies.of_step", "if needed:", "if False:")
STAGES.edit("no group is committed", "Copies.of_step", "if [p] == last:", "if False:")
BARRIERS = Faults("barriers and copies", "minitvm.tir.transform.insert_barriers", [INSTRUCTIONS])
BARRIERS.edit(
    "what arrives at a wait is forgotten", "_Threads.arrivals", "if not any(is_wait(node) for node in walk(stmt)):",
    "if True:",
)  # fmt: skip
SPELLING = Faults("spelling of byte instructions", "minitvm.codegen.byte_instructions", [INSTRUCTIONS])
SPELLING.edit(
    "the sums so far are forgotten", "dot_4x16", "{load}({sums}, {at_c}, 16))", "{load}({sums}, {at_c}, 16) * 0)"
)
TILES = by_hand("products of tiles of bytes", test_on_this_cpu)
ROWS = Faults("spelling of tiles of bytes", "minitvm.codegen.byte_instructions", [TILES])
ROWS.edit("rows of tiles are a column apart", "tile_dot", "stride_of(emitter, tile, 0)", "stride_of(emitter, tile, 1)")
BYTES = Faults("products of tiles of bytes", "minitvm.runtime.vectors.tile_products", [TILES])
BYTES.edit("bytes have no sign", "_by_words", "(word << shift) >> 24", "((word << shift) >> 24) & 255")
BYTES.edit("a word has three bytes", "_by_words", "(24, 16, 8, 0)", "(24, 16, 8)")
OPERANDS = Faults("operands of instructions", "minitvm.codegen.operands", [INSTRUCTIONS, TENSOR_CORES])
OPERANDS.edit(
    "a tile starts a row below",
    "start_of",
    "tile.places[0].indices[0]",
    "tile.places[min(1, len(tile.places))].indices[0]",
)
CUDA = Faults("asynchronous copies of CUDA", "minitvm.codegen.numba_cuda", [INSTRUCTIONS])
CUDA.edit("waits are left out", "_NumbaCUDA.evaluate", "stmt.value.op in (COMMIT, WAIT)", "stmt.value.op == COMMIT")
CORES = Faults("spelling of tensor cores", "minitvm.codegen.tensor_cores", [TENSOR_CORES])
CORES.edit("pieces of the first factor change places", "_A", "(8, 0), (0, 8)", "(0, 8), (8, 0)")
CORES.edit("lanes name rows of the left half alone", "load_a", "({lane} >> 4) * 8", "({lane} >> 4) * 0")
CORES.edit("columns of the second factor are rows", "LOADS", '"ldmatrix_x2_trans"', '"ldmatrix_x2"')
CORES.edit("lower rows are stored again", "store", "8 * ({row})", "0 * ({row})")
THREADS = Faults("what a warp does together", "minitvm.tir.transform.bind_threads", [TENSOR_CORES])
THREADS.edit(
    "every lane does it", "_by_one_lane", "replace(node, body=If(EQ(lanes.var, lanes.start), node.body))", "node"
)
PADDED = Faults("products on tensor cores", "minitvm.strategy.gpu.tensor_cores", [TENSOR_CORES])
PADDED.edit("extents that do not divide are not padded", "_divide", "return product.m", "return True or product.m")
PADDED.edit("the sum alone is padded", "_padded", "[*[1] * spatial, *tile]", "[*[1] * spatial, 1, 1, tile[2]]")
