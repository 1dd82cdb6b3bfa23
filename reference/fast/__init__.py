"""The same meaning, fast: independent iterations all at once with NumPy, proved independent while they run."""
