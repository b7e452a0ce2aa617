"""Settings shared by all tests.

Hypothesis is derandomised: the same examples everywhere, every time. With NUMBA_DISABLE_JIT=1 the kernels are plain
Python and some hundred times slower, so the tests marked `jit_off`, those of the kernels, then take fewer examples and
draws; what they claim is the same.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import pytest
from hypothesis import HealthCheck, settings

JIT = not numba.config.DISABLE_JIT
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

settings.register_profile(
    "chiasma",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=40 if JIT else 12,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("chiasma")


def compile_kernels() -> None:
    """Compile, or find compiled, what tests need, in a process of its own."""
    program = "import compiling; compiling.use_everything()"
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parent, check=True)


def pytest_configure(config: pytest.Config) -> None:
    """Compile in one process, before there are several, and let tests interrupt.

    Processes that compile at the same time may fuse different multiply-adds, and runs are compared bit by bit.
    """
    # A test would wait for the disk most of its time. What is synced, and when, is the subject of test_power_cut.py.
    os.fsync = lambda handle: None
    # Where tests run in the background, Ctrl-C may be switched off, for the processes they start as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
    if JIT and not hasattr(config, "workerinput") and not os.environ.get("KERNELS_COMPILED"):
        compile_kernels()


def pytest_itemcollected(item: pytest.Item) -> None:
    if JIT and item.get_closest_marker("symbolic"):
        item.add_marker(pytest.mark.skip(reason="symbolic uniforms need plain-Python kernels: NUMBA_DISABLE_JIT=1"))
    if not JIT and item.get_closest_marker("large"):
        item.add_marker(pytest.mark.skip(reason="too much work for plain-Python kernels"))


@pytest.fixture(scope="session")
def n_draws() -> int:
    """Draws for a goodness-of-fit test."""
    return 200_000 if JIT else 4_000


@pytest.fixture(scope="session")
def n_grid() -> int:
    """Points of an equally spaced grid of uniforms, to measure the interval that leads to each outcome."""
    return 4_000 if JIT else 300


def lighten_pictures(patch: pytest.MonkeyPatch) -> None:
    """Figures are drawn once, coarsely and without a layout, and report.html is empty: both take most of the time of a
    command that writes many.

    test_plots.py, test_plots_parameters.py, test_report.py and test_browser.py draw them as they are.
    """
    from matplotlib.figure import Figure

    from chiasma.report import report_page

    save = Figure.savefig

    def lightly(figure: Figure, path: Path, **options: Any) -> None:
        if path.suffix == ".pdf":
            path.write_bytes(b"%PDF")
            return
        figure.set_layout_engine(None)  # any other, "none" as well, draws everything once before it is drawn
        save(figure, path, **options | {"dpi": 20})

    patch.setattr(Figure, "savefig", lightly)
    patch.setattr(report_page, "write_page", lambda found, run, *_: (run / "report.html").write_text("<p>"))


@pytest.fixture
def light_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    lighten_pictures(monkeypatch)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, driven by Playwright."""
    reason = "the browser test needs playwright: pip install -e '.[dev]'"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"the browser test needs one of {', '.join(BROWSERS)}; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()
