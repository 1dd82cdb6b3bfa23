"""Passes for loops that become vectors: strided loads and stores, masks, and transposed tiles."""
