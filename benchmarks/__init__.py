"""Side-by-side measurements against peers, in one process; `python -m benchmarks` runs all of them."""
