"""What expressions, statements and memory mean, one element and one iteration at a time: the definition."""
