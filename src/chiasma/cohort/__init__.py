"""Many samples: on Dask, on a cluster or a laptop, or as jobs of an array. `ch.cohort(sheet, out, ...)` runs them.

The package is called like the function that it exists for, so it can be called: `chiasma.cohort.api.cohort` says how.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chiasma.cohort.api import cohort as cohort


class _Package(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from chiasma.cohort.api import cohort

        return cohort(*arguments, **options)


sys.modules[__name__].__class__ = _Package
if not TYPE_CHECKING:
    # What `chiasma.cohort` is does not depend on which of its modules was imported first.
    cohort = sys.modules[__name__]
