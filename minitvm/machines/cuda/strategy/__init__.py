"""Schedules that only CUDA machines have: tiles of warps and warpgroups on tensor cores."""
