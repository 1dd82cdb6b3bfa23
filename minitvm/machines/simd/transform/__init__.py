"""Passes for loops that become vectors: loads and stores with strides, masks, transposed tiles."""
