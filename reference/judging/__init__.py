"""Do two programs mean the same? Modes of comparison, inputs, verdicts, counterexamples made small."""
