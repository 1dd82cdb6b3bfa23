"""Other meanings of floats: exact sums, values with error bounds, elements of finite fields."""
