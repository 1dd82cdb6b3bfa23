"""Decide whether two programs mean the same: modes of comparison, inputs, verdicts, and small counterexamples."""
