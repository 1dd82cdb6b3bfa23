"""Schedules for machines with scratchpads: tiles of convolutions and matrix products."""
