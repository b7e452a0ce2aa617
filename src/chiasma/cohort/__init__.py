"""Many samples: on Dask, on a cluster or a laptop, or as jobs of an array. `ch.cohort(sheet, out, ...)` runs them.

The package is called like the function that it exists for, so it can be called: `chiasma.cohort.api.cohort` says how.
"""

import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chiasma.cohort.api import cohort as cohort


class _Package(ModuleType):
    # To help() and notebooks it looks like its function.

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        from chiasma.cohort.api import cohort

        return cohort.__doc__

    @property
    def __signature__(self) -> inspect.Signature:
        from chiasma.cohort.api import cohort

        return inspect.signature(cohort)

    def __dir__(self) -> list[str]:
        return ["cohort"]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from chiasma.cohort.api import cohort

        return cohort(*arguments, **options)


sys.modules[__name__].__class__ = _Package
if not TYPE_CHECKING:
    # What `chiasma.cohort` is does not depend on which of its modules was imported first.
    cohort = sys.modules[__name__]
