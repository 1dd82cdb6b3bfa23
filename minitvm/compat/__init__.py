"""Names of other projects, so that what is written for them runs here."""
