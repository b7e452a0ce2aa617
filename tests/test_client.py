"""Chains on the workers of a client: the same draws as with threads, whatever becomes of the workers."""

import os
import pickle
import signal
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest
from distributed import Client, KilledWorker, LocalCluster

import chiasma as ch
from chiasma.sampling import remote


class Task:
    """A result, pickled on its way as those of workers."""

    def __init__(self, function, given):
        try:
            self.error, self.value = None, cloudpickle.dumps(function(*given))
        except Exception as error:
            self.error = pickle.loads(pickle.dumps(error))

    def done(self):
        return True

    def result(self):
        if self.error is not None:
            raise self.error
        return pickle.loads(self.value)


class Alone:
    """A client without workers, that runs every task at once."""

    def submit(self, function, *given, key, pure):
        assert not pure
        given = [one.result() if isinstance(one, Task) else pickle.loads(cloudpickle.dumps(one)) for one in given]
        return Task(function, given)


def switches(n_rows, sd=1.0, **more):
    weights = np.linspace(1.0, 2.0, n_rows)
    return ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(weights, sd=sd, **more))


def states():
    rows = [ch.Row([0, 1, 2], ch.Sticky(0.1)), ch.Row([0, 5], ch.Switch(0.1, 0.1))]
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.5))


Y = np.random.default_rng(1).normal(3, 1.5, 30)
NORMAL = {"size": 2, "init": [0.0, 0.0], "log_prior": lambda x: -0.5 * (x**2).sum(axis=1) / 9}
SHORT = {"draws": 12, "warmup": 70, "chains": 2, "seed": 1, "progress": False}


def normal(**more):
    return ch.Density(lambda x: -0.5 * ((x - 1) ** 2).sum(axis=1), **(NORMAL | more))


RUNS = {
    "exact": (switches(2), Y, {}),
    "compiled": (switches(3), Y, {"update": "row"}),
    "blocks": (switches(3), Y, {"update": "gaussian-blocks", "ladder": [1], "exchange": None}),
    "steps": (states(), Y, {"update": "row", "ladder": [1, 3]}),
    "jumps": (switches(4), Y, {"update": ch.Jumps(size=1), "ladder": [1], "exchange": None}),
    "given paths": (switches(2, ch.LogNormal(0, 1)), Y, {"update": "row", "ladder": [1, 2]}),
    "collapsed": (switches(2, ch.LogNormal(0, 1)), Y, {"update": "exact", "ladder": [1, 2]}),
    "gradient": (switches(2, ch.LogNormal(0, 1)), Y, {"update": "collapsed"}),
    "random walk": (normal(), None, {}),
    "hamiltonian": (normal(gradient=lambda x: 1 - x, prior_gradient=lambda x: -x / 9), None, {}),
    "stretch": (normal(update=ch.Stretch()), None, {}),
    "own": (normal(update=lambda x, beta, rng: x), None, {"ladder": [1, 2]}),
    "toy": (ch.BlockModes(3, 9, 0.1), None, {}),
}


@pytest.mark.parametrize("name", RUNS)
def test_client__draws_what_threads_draw(name, monkeypatch):
    """Every engine, sent back and forth after every piece."""
    monkeypatch.setattr(remote, "TASK_SECONDS", -1.0)
    model, data, options = RUNS[name]
    here = ch.sample(model, data, **options, **SHORT)
    there = ch.sample(model, data, **options, **SHORT, client=Alone())
    np.testing.assert_array_equal(there.betas, here.betas)
    for variable in here.to_datatree().posterior.data_vars:
        np.testing.assert_array_equal(there.to_datatree().posterior[variable], here.to_datatree().posterior[variable])
    assert there.log_evidence == here.log_evidence


def killer(flag, here):
    """A density that kills the first worker which evaluates it some times."""
    calls = 0

    def log_density(x):
        nonlocal calls
        calls += 1
        if os.getpid() != here and calls > 50:
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return -0.5 * ((x - 1) ** 2).sum(axis=1)

    return log_density


@pytest.fixture(scope="module")
def client():
    """Two worker processes, which are started again when they are lost."""
    with (
        LocalCluster(
            2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50, protocol="tcp"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_client__a_killed_worker_changes_nothing(client, tmp_path):
    """With a store, which this process writes."""
    density = ch.Density(killer(str(tmp_path / "killed"), os.getpid()), **NORMAL)
    there = ch.sample(density, **SHORT, store=tmp_path / "run", client=client)
    assert (tmp_path / "killed").exists()
    here = ch.sample(density, **SHORT)
    np.testing.assert_array_equal(there.draws, here.draws)
    further = {"draws": 20, "store": tmp_path / "run", "resume": True, "client": client}
    more, whole = ch.sample(density, **SHORT | further), ch.sample(density, **SHORT | {"draws": 20})
    np.testing.assert_array_equal(more.draws, whole.draws)


class Deadly(Alone):
    """Whoever takes a turn of a chain is killed, as often as Dask tries."""

    def submit(self, function, *given, key, pure):
        task = super().submit(function, *given, key=key, pure=pure)
        if function is remote.take_turn:
            task.error = KilledWorker(key, SimpleNamespace(address="tls://127.0.0.1:1"), 3)
        return task


def test_client__a_worker_that_is_lost_again_and_again():
    with pytest.raises(remote.WorkersLost, match="KilledWorker"):
        ch.sample(normal(), **SHORT, client=Deadly())


def test_client__errors_of_functions_come_back():
    def wrong(x):
        if len(x) > 4:
            raise ArithmeticError("no such value")
        return -0.5 * (x**2).sum(axis=1)

    with pytest.raises(ArithmeticError, match="no such value"):
        ch.sample(ch.Density(wrong, **NORMAL), **SHORT, client=Alone())


class Unsent:
    """What cannot be pickled."""

    def __call__(self, x):
        return -0.5 * (x**2).sum(axis=1)

    def __reduce__(self):
        raise TypeError("it stays here")


class Asynchronous(Alone):
    asynchronous = True


def test_client__refused():
    for client in ("tcp://127.0.0.1:8786", Asynchronous()):
        with pytest.raises(ch.InvalidInput, match="client must"):
            ch.sample(normal(), **SHORT, client=client)
    with pytest.raises(ch.InvalidInput, match=r"cannot be sent.*it stays here"):
        ch.sample(ch.Density(Unsent(), **NORMAL), **SHORT, client=Alone())
    with pytest.raises(ch.InvalidInput, match=r"this process has 0\.0"):
        remote.unpack_problem(b"", "0.0")
