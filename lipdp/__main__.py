"""``python -m lipdp``."""

from lipdp.cli import main

main()
