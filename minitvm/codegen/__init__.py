"""Kernel source from the kernel level: one emitter walks the tree, a dialect a target says how each node is spelled."""
