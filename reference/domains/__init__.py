"""What floats may mean beside the numbers that they are: exact sums, values with errors, elements of finite fields."""
