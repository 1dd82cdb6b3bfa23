"""Schedules as TVM has them: primitives that only its scripts call, and its tests of a trace."""
