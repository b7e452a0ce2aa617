"""`python -m chiasma` is the command `chiasma`."""

from chiasma.cli import main

if __name__ == "__main__":
    main()
