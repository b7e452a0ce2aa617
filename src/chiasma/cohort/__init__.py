"""Many samples: on Dask, on a cluster or a laptop, or as jobs of an array."""

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """The package can be called: once it was imported, `chiasma.cohort` is the package, not the function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from chiasma.cohort.api import cohort

        return cohort(*arguments, **options)


sys.modules[__name__].__class__ = _Package
