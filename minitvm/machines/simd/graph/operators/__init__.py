"""Graph operators on blocked layouts."""
