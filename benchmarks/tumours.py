"""Time and memory of a tumour: answer, files and figures, with one clone and with two; kernels are compiled first."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from run import Report

N_BINS = 10_877
GOALS = {1: 60.0, 2: 300.0}
MEMORY = 2 * 2**30

# In a separate process, so that the peak is that of the tumour alone.
CHILD = """
import json, resource, sys, time
from pathlib import Path
from chiasma.cli.simulate import write_tumour
from chiasma.datasets.tumours import simulate_tumour
from chiasma.tumour.landscape import Bounds
from chiasma.tumour.analysis import TumourSettings, read_samples

folder, clones, n_bins = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for name, size, seed in (("warm", 200, 1), ("tumour", n_bins, 2)):
    write_tumour(folder / f"{name}.bb", simulate_tumour(seed, size, purity=0.6, clones=clones))
    began = time.process_time()
    bins = read_samples(folder / f"{name}.bb")[0]
    TumourSettings(clones=f"1-{clones}").solve([bins], folder / name)
    seconds = time.process_time() - began
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


def run(report: Report) -> None:
    report.text(
        f"A simulated tumour of {N_BINS:,} bins with allele counts: reading, searching and polishing all solutions, "
        "tables, exports and figures. CPU seconds of all threads together: a free core needs no more, and the load of "
        "the machine does not matter. Compiled kernels are loaded before."
    )
    rows = []
    for clones, goal in GOALS.items():
        with tempfile.TemporaryDirectory() as folder:
            arguments = [sys.executable, "-c", CHILD, folder, str(clones), str(N_BINS)]
            done = subprocess.run(arguments, check=True, capture_output=True, text=True)
        seconds, peak = json.loads(done.stdout.splitlines()[-1])
        rows.append(
            [f"up to {clones}", f"{seconds:.0f}", f"{goal:.0f}", f"{peak / 2**20:,.0f}", f"{MEMORY / 2**20:,.0f}"]
        )
    report.table(["clones", "CPU seconds", "goal", "peak memory, MiB", "goal, MiB"], rows)
