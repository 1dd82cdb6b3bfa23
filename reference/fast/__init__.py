"""The fast interpreters: they run independent iterations all at once with NumPy, and prove the independence as they
run.
"""
