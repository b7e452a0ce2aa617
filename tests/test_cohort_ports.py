"""A local cluster of a cohort listens on loopback only, and refuses everyone without its certificate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chiasma.cohort.workers import distributed, local_client

LISTENING, LOOPBACK = "0A", "0100007F"


def listeners() -> set[tuple[str, str]]:
    """(address, port) of every socket on which this process or a child listens, as /proc writes them."""
    own = {os.getpid()}
    parents = {int(one.name): _parent(one) for one in Path("/proc").iterdir() if one.name.isdigit()}
    while more := {child for child, parent in parents.items() if parent in own} - own:
        own |= more
    inodes = {os.readlink(link) for pid in own for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == LISTENING and f"socket:[{parts[9]}]" in inodes:
                address, port = parts[1].split(":")
                found.add((address, port))
    return found


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_local_cluster__listens_on_loopback_and_refuses_strangers():
    before = listeners()
    with local_client(1) as client:
        found = listeners() - before
        assert found
        assert {address for address, _ in found} == {LOOPBACK}
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert client.submit(abs, -3).result() == 3
        for stranger in (address.replace("tls://", "tcp://"), address):
            with pytest.raises((OSError, TypeError, ValueError)):
                distributed().Client(stranger, timeout=2, set_as_default=False)
