"""Packages that only some users need, and the extras that install them.

`with extra("plots"):` around an import turns a missing package into an error that names the extra.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from chiasma.errors import ChiasmaError

DISTRIBUTION = "chiasma-fhmm"


class MissingExtra(ChiasmaError, ImportError):
    """A package that an extra installs is missing; also an ImportError."""

    def __init__(self, package: str, name: str):
        super().__init__(f"this needs {package}; install it with: pip install '{DISTRIBUTION}[{name}]'")
        self.package = package


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports of packages that the extra `name` installs.

    >>> with extra("plots"):
    ...     import no_such_package
    Traceback (most recent call last):
        ...
    chiasma.extras.MissingExtra: this needs no_such_package; install it with: pip install 'chiasma-fhmm[plots]'

    Of extras inside each other the outer one is named, which has what the inner one lacks, and what comes next.

    >>> with extra("tumour"), extra("plots"):
    ...     import no_such_package
    Traceback (most recent call last):
        ...
    chiasma.extras.MissingExtra: this needs no_such_package; install it with: pip install 'chiasma-fhmm[tumour]'
    """
    try:
        yield
    except MissingExtra as error:
        # The outer extra has what the inner one lacks, and more that will be needed.
        raise MissingExtra(error.package, name) from error
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "chiasma":
            raise
        raise MissingExtra(package, name) from error
