"""What all machines with vectors share."""
