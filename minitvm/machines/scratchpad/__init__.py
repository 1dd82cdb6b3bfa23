"""The parts that accelerators with scratchpads share, whatever their instruction set is.

instruction_set    an element's operations, as tensor intrinsics over scratchpads
transform          passes: tiles into scratchpads, loops into instructions, tokens between modules
strategy           tiles of convolutions and matrix products, and their price
emitter            the walk that all code generators of such machines begin from
topi, operators    tensors of elements, as tensor expressions and as operators of graphs
element_layout     the graph pass that brings tensors into the machine's elements
memory, channel    the memory outside (DRAM), and the way to it: how many cycles a request takes
timeline           what ran when
simulated_device   a device whose programs an interpreter runs
viz                a timeline as a page, as a Chrome trace, and beside its roofline
"""

__all__ = ["element_layout", "memory", "simulated_device", "timeline", "topi", "viz"]
