"""The notes on loops that lowering follows, beside those of software pipelines (`schedule.pipelines`)."""

LANES = "vector_reduction"  # an innermost reduction loop: accumulate in that many lanes
PREFETCH = "prefetch"  # an innermost loop: ask for what it streams through that many iterations ahead
