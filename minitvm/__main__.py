"""`python -m minitvm`: the same as the command `minitvm`."""

import sys

from .tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
