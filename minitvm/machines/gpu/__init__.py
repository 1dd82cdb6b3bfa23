"""What machines with a grid of threads share."""
