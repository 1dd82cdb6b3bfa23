"""The parts that accelerators with scratchpads share, whatever their instruction set.

instruction_set    the operations on one element, as tensor intrinsics over scratchpads
transform          passes: tiles into scratchpads, loops into instructions, tokens between modules
strategy           tiles of convolutions and matrix products, and their price
emitter            the walk with which all code generators of such machines begin
topi, operators    tensors of elements, as tensor expressions and as operators of graphs
element_layout     the graph pass that converts tensors to the machine's elements
memory, channel    the external memory (DRAM), and the channel to it: the cycles that a request takes
timeline           which instruction ran when
simulated_device   a device whose programs an interpreter runs
viz                a timeline as a page, as a Chrome trace, and under its roofline
"""

__all__ = ["element_layout", "memory", "simulated_device", "timeline", "topi", "viz"]
