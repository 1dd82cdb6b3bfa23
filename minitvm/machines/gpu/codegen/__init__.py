"""The parts that code generators of GPUs share: grids and blocks, and how wide an index is."""
