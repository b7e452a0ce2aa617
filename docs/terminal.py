"""Pages that show commands: an empty folder, `chiasma` on the path, and %%bash cells that print as a terminal does."""

import os
import subprocess
import sys
import tempfile

from IPython import get_ipython


def bash(line: str, cell: str) -> None:
    """%%bash that prints everything at once: what comes bit by bit is broken into lines."""
    done = subprocess.run(["bash", "-c", cell], capture_output=True, text=True)
    if printed := (done.stderr + done.stdout).strip("\n"):
        print(printed)
    if "fails" not in line:
        done.check_returncode()


os.environ.update(COLUMNS="80", TERM="dumb")  # no colours, no progress bar
os.environ.pop("FORCE_COLOR", None)
os.chdir(tempfile.mkdtemp())
os.mkdir("bin")
with open("bin/chiasma", "w") as file:
    file.write(f'#!/bin/sh\nexec "{sys.executable}" -m chiasma "$@"\n')
os.chmod("bin/chiasma", 0o755)
os.environ["PATH"] = f"{os.getcwd()}/bin:{os.environ['PATH']}"
get_ipython().register_magic_function(bash, "cell")
