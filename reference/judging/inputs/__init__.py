"""Choose arguments and sizes to try programs on: random ones, and ones at which a program may change its behaviour."""
