"""Generate kernel source: one emitter walks the program of a kernel, and the target's dialect spells each node."""
