"""Planted faults: small patches of minitvm, each of which the oracle must notice. `make mutants` runs them all."""
