"""Stored draws can be read after a fork: dask, which loads them, would wait for ever for threads of the parent."""

from __future__ import annotations

import os
import sys
from threading import Lock
from typing import Any


def forget_pools() -> None:
    """Let dask start threads anew; a child process has none of its parent's."""
    threaded: Any = sys.modules.get("dask.threaded")
    if threaded is not None:
        threaded.default_pool = None
        threaded.pools.clear()
        threaded.pools_lock = Lock()  # a thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_pools)
