"""Schedules for machines with scratchpads: tiles of convolutions, and the passes that lower them."""
