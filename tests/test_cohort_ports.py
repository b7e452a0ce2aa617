"""A local cluster of a cohort listens on loopback only, and refuses everyone without its certificate."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from chiasma.cohort.workers import distributed, local_client, unencrypted

LISTENING, LOOPBACK = "0A", "0100007F"
PROC = Path("/proc/net/tcp")


def listeners() -> set[tuple[str, str]]:
    """(address, port) of every socket on which this process or a child listens, as /proc writes them."""
    if not PROC.exists():
        return set()
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


@pytest.fixture(scope="module")
def client():
    """Of a local cluster with one worker; its files are gone after it."""
    before = listeners()
    with local_client(1) as client:
        (folder,) = client.run(lambda dask_worker: dask_worker.local_directory).values()
        client.folder = next(one for one in Path(folder).parents if one.name.startswith("chiasma-"))
        client.listeners = listeners() - before
        yield client
    assert not client.folder.exists()


@pytest.mark.skipif(not PROC.exists(), reason="needs /proc")
def test_local_cluster__listens_on_loopback_and_refuses_strangers(client):
    assert client.listeners
    assert {host for host, _ in client.listeners} == {LOOPBACK}
    address = client.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    assert client.submit(abs, -3).result() == 3
    for stranger in (address.replace("tls://", "tcp://"), address):
        with pytest.raises((OSError, TypeError, ValueError)):
            distributed().Client(stranger, timeout=2, set_as_default=False)
    # Before, Dask's own web server told everyone about workers, tasks and their call stacks.
    for port in (int(port, 16) for _, port in client.listeners):
        for page in ("info/main/workers.html", "json/identity.json", "metrics", "health", "status"):
            with pytest.raises((HTTPError, URLError, ConnectionError)):
                urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)


def test_local_cluster__keeps_its_files_in_a_directory_of_its_user(client):
    """Workers load what they spilled there: whoever could write to it would run code as their owner."""
    assert stat.S_IMODE(client.folder.stat().st_mode) == 0o700


def test_local_cluster__beside_another_one_says_nothing(client, recwarn):
    """Before, both wanted the port 8787, and the second one warned."""
    with local_client(1):
        pass
    assert not [str(one.message) for one in recwarn if "8787" in str(one.message)]


NOBODY = 65534
# Garbage collection may close a refused client while the next one starts, which deadlocks on a lock of distributed.
INTRUDER = """
import gc, os, sys
import distributed
gc.disable()
nobody, *addresses = sys.argv[1:]
os.setgroups([])
os.setgid(int(nobody))
os.setuid(int(nobody))
for address in addresses:
    try:
        client = distributed.Client(address, timeout=3, set_as_default=False)
        print("inside" if client.submit(abs, -3).result(timeout=10) == 3 else "outside")
    except BaseException as error:
        print(type(error).__name__)
"""


def intrude(*addresses):
    """What another user of this machine gets from each scheduler."""
    words = [sys.executable, "-c", INTRUDER, str(NOBODY), *addresses]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120).stdout.split()
    assert len(found) == len(addresses)
    return found


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become another user")
def test_local_cluster__refuses_another_user_of_the_machine(client):
    """Such a user reaches loopback as well: without a certificate a function ran with the rights of the owner."""
    address = client.scheduler.address
    with distributed().LocalCluster(
        1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as open_to_all:
        doors = open_to_all.scheduler_address, address, address.replace("tls://", "tcp://")
        able, *refused = intrude(*doors)
    assert able == "inside"
    assert "inside" not in refused


def test_foreign_cluster__without_encryption_is_told():
    for address in ("tcp://10.0.0.1:8786", "ws://10.0.0.1:8786", "ucx://10.0.0.1:8786"):
        assert address in unencrypted(address)
    for address in ("tls://10.0.0.1:8786", "wss://10.0.0.1:8786", "inproc://10.0.0.1/1/1"):
        assert unencrypted(address) == ""
