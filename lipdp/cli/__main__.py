"""``python -m lipdp.cli``."""

from lipdp.cli import main

main()
