"""The command `chiasma`, also as `python -m chiasma`: a signal while it is imported or ends is no traceback."""


def main() -> None:
    """Entry point."""
    try:
        from chiasma.cli import main as run

        run()
    except KeyboardInterrupt:  # Ctrl-C before `run` listens
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
