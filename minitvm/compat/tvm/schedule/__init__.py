"""Schedules as TVM has them: primitives that only its scripts call, and its tests of a trace."""

__all__ = ["primitives", "testing", "transform"]
