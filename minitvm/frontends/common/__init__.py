"""The parts that all importers share: operands, symbolic sizes, bounds, loops, the matching of many nodes as one."""
