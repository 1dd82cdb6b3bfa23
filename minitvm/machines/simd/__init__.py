"""The parts that all machines with vectors share."""
