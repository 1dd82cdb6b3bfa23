"""The parts that code generators for GPUs share: grids and blocks, and the width of indices."""
