"""How long a test waits for a process: only one that hangs gets there, on the slowest and busiest machine."""

PATIENCE = 900.0  # seconds
