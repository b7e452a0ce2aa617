"""A pool of threads: order, errors, and interrupts that find no lock taken."""

import _thread
import signal
import threading
import time

import pytest

from chiasma.sampling import threads
from chiasma.sampling.threads import Pool


@pytest.fixture(autouse=True)
def python_handles_ctrl_c():
    """As at the start of Python; other tests may have left another handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_map__results_are_in_the_order_of_the_tasks():
    with Pool(3) as pool:
        found = pool.map(lambda wait, name: (time.sleep(wait), name)[1], [0.05, 0.0, 0.02], ["a", "b", "c"])
        assert list(found) == ["a", "b", "c"]


def test_error__is_raised_and_what_has_not_begun_is_dropped():
    begun = []

    def fail(i):
        begun.append(i)
        time.sleep(0.01)
        return 1 / (i - 1)

    with pytest.raises(ZeroDivisionError), Pool(1) as pool:
        list(pool.map(fail, range(100)))
    assert begun == list(range(len(begun)))
    assert 2 <= len(begun) < 100


def test_interrupt__while_it_waits():
    n_threads = threading.active_count()
    begun = []

    def interrupt(i):
        begun.append(i)
        if i == 1:
            _thread.interrupt_main()
        time.sleep(0.02)

    with pytest.raises(KeyboardInterrupt), Pool(2) as pool:
        list(pool.map(interrupt, range(1000)))
    assert 2 <= len(begun) < 1000
    assert threading.active_count() == n_threads
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt__while_tasks_are_results_of_the_same_pool():
    begun = []

    def interrupt(i):
        begun.append(i)
        if i == 1:
            _thread.interrupt_main()
        time.sleep(0.02)
        return i

    with pytest.raises(KeyboardInterrupt), Pool(1) as pool:
        pool.map(abs, pool.map(interrupt, range(1000)))
    assert len(begun) < 100  # an interrupt that waits for all results would be heard after the last


def test_interrupt__waits_until_no_lock_is_taken(monkeypatch):
    """While tasks are submitted, and while the pool ends, its locks may be taken."""
    seen = []

    class Interrupted(threads.ThreadPoolExecutor):
        def submit(self, function, /, *given):
            signal.raise_signal(signal.SIGINT)
            seen.append("submitted")
            return super().submit(function, *given)

        def shutdown(self, **options):
            signal.raise_signal(signal.SIGINT)
            super().shutdown(**options)
            seen.append("ended")

    monkeypatch.setattr(threads, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt), Pool(2) as pool:
        pool.map(abs, [1, -2])
    assert seen == ["submitted", "submitted", "ended"]
