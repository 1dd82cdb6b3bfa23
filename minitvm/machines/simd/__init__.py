"""The parts that all machines with vectors share."""

__all__ = ["codegen", "tile_intrinsics", "vectors"]
