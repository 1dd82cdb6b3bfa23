"""Kernel source from the kernel level: one emitter walks the tree, and the target's dialect spells each node."""
