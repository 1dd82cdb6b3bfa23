"""The parts that machines with a grid of threads share."""
