"""What the code generators of GPUs share: grids and blocks, and how wide an index is."""
