"""Peak memory of exact inference at real size, measured in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc/self/status"),
]

GIB = 2**30

PREAMBLE = """
import numpy as np
import chiasma as ch

def peak():
    # Not ru_maxrss: a process inherits that of its parent, and test workers are large.
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
"""

TWELVE_ROWS = """
weights = 1.15 ** np.arange(12)
model = ch.FactorialHMM(rows=ch.Switches(0.01, 0.02), emission=ch.Gaussian(weights, depth=2.0, sd=1.0))
states, y = model.simulate(10_877, seed=1)
codes = ch.exact.draws(model, y, 3, seed=2)
assert codes.shape == (3, 10_877)
level = (codes[:, None, :] >> np.arange(12)[:, None] & 1).transpose(0, 2, 1) @ weights
print(peak(), np.abs(y - 2.0 * level).mean())
"""

# A log-likelihood that is linear in the level is a product over rows, so that rows are independent a posteriori and
# the log evidence is a sum over rows of two-state filters.
SIXTEEN_ROWS = """
n_rows, n_columns = 16, 2_000
rng = np.random.default_rng(3)
scores = rng.normal(0.0, 1.5, n_rows)
tilt = rng.normal(size=n_columns)
emission = ch.Custom(lambda y, level: y * level, weights=scores)
enter, leave = rng.uniform(0.01, 0.2, (2, n_rows))
model = ch.FactorialHMM(rows=ch.Switches(enter, leave), emission=emission)
evidence = ch.exact.log_evidence(model, tilt)
codes = ch.exact.draws(model, tilt, 1, seed=4)
expected = 0.0
for k in range(n_rows):
    message = np.array([leave[k], enter[k]]) / (enter[k] + leave[k])
    step = np.array([[1 - enter[k], enter[k]], [leave[k], 1 - leave[k]]])
    for t in range(n_columns):
        message = (message if t == 0 else message @ step) * np.exp([0.0, tilt[t] * scores[k]])
        expected += np.log(message.sum())
        message /= message.sum()
print(peak(), evidence, expected, codes.shape[1], codes.dtype, ch.log_joint(model, tilt, codes[0]))
"""


def run(script):
    done = subprocess.run([sys.executable, "-c", PREAMBLE + script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_draws_of_twelve_rows_at_genome_length_stay_under_one_gibibyte():
    peak, error = (float(word) for word in run(TWELVE_ROWS))
    assert peak < GIB
    # Standard normal noise has a mean absolute value of 0.8: the draws explain the signal.
    assert error < 1.0


def test_sixteen_rows_and_two_thousand_columns_give_the_evidence_of_their_factors():
    peak, evidence, expected, n_columns, dtype, log_joint = run(SIXTEEN_ROWS)
    assert float(evidence) == pytest.approx(float(expected), rel=1e-9)
    assert (n_columns, dtype) == ("2000", "uint16")
    assert float(log_joint) < float(evidence)
    assert float(peak) < GIB
