"""The parts that all importers share: operands, symbolic sizes, bounds, loops, and dimensions that must be equal."""
