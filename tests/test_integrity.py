"""Damage: every flipped bit, truncation, missing or foreign file is named, or changes nothing that is read."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chiasma as ch
import test_store
from chiasma.errors import ChiasmaError, StoreError
from chiasma.storage import digests
from chiasma.storage.reading import only_store_errors, read_npy, read_npz

FLIPS = 150


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    test_store.small_pieces(monkeypatch.setattr)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with full and partly filled chunks, data, gaps and a ladder."""
    with pytest.MonkeyPatch.context() as patch:
        test_store.small_pieces(patch.setattr)
        test_store.run("compiled", tmp_path_factory.mktemp("whole") / "run")
    return tmp_path_factory.getbasetemp() / "whole0" / "run"


@pytest.fixture
def copy(whole_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole_run, tmp_path / "run"))


def everything(path: Path) -> list[Any]:
    """All that can be read from a run."""
    posterior = ch.open_posterior(path)
    arrays = [posterior.draws, posterior.log_joint, posterior.log_likelihood, posterior.replica_log_likelihood]
    data = posterior.data
    assert data is not None
    stats = [values.values for values in posterior.exchange_stats.values()]
    told = [posterior.row_counts, posterior.betas, data.y, data.starts, data.gaps, *stats]
    return [*(array.values for array in arrays), *told, repr(posterior.model), repr(posterior.info)]


def same(found: list[Any], expected: list[Any]) -> bool:
    return all(
        np.array_equal(one, other, equal_nan=True) if isinstance(one, np.ndarray) and one.dtype.kind == "f"
        else np.array_equal(one, other)
        for one, other in zip(found, expected, strict=True)
    )  # fmt: skip


def refused(path: Path, expected: list[Any]) -> str | None:
    """The message with which a run is refused; None if all that is read is as it was."""
    try:
        found = everything(path)
    except StoreError as error:
        return str(error)
    assert same(found, expected), "damage without notice"
    return None


def problems(path: Path) -> tuple[str, ...]:
    try:
        return ch.check_store(path).problems
    except StoreError as error:
        return (str(error),)


@pytest.mark.slow
def test_damage__one_flipped_bit_anywhere_is_named_or_changes_nothing(copy):
    expected = everything(copy)
    files = sorted(file for file in copy.rglob("*") if file.is_file())
    rng = np.random.default_rng(7)
    n_refused = 0
    for _ in range(FLIPS):
        file = files[rng.integers(len(files))]
        content = bytearray(file.read_bytes())
        at = int(rng.integers(len(content)))
        content[at] ^= 1 << int(rng.integers(8))
        kept = file.read_bytes()
        file.write_bytes(bytes(content))
        refusal = refused(copy, expected)
        if refusal is None:
            # Only what other programs read may differ without notice, and the whole check sees that, too.
            assert file.name == "zarr.json"
            assert file.parent != copy
        else:
            n_refused += 1
            assert file.name in refusal or file.parent.name in refusal
            assert "restore" in refusal or "check the path" in refusal
        assert problems(copy) or json.loads(bytes(content)) == json.loads(kept), f"not found by check_store: {file}"
        file.write_bytes(kept)
    assert n_refused > FLIPS // 2
    assert same(everything(copy), expected)


@pytest.mark.parametrize("how", ["missing", "empty", "half", "foreign"])
def test_damage__of_whole_files_is_named(how, copy):
    expected = everything(copy)
    files = sorted(file for file in copy.rglob("*") if file.is_file())
    contents = {file: file.read_bytes() for file in files}
    for file in files:
        if how == "missing":
            file.unlink()
        elif how == "foreign":
            others = [other for other in files if other.suffix == file.suffix and contents[other] != contents[file]]
            if not others:
                continue
            file.write_bytes(contents[others[0]])
        else:
            file.write_bytes(contents[file][: len(contents[file]) // 2 if how == "half" else 0])
        refusal = refused(copy, expected)
        assert problems(copy), file
        assert refusal is None or file.name in refusal or file.parent.name in refusal
        file.write_bytes(contents[file])


def test_model__of_another_run_is_refused(copy):
    model, _ = test_store.paths()
    assert ch.open_posterior(copy, model=model).model is model
    other, _ = test_store.paths(sd=0.7)
    with pytest.raises(StoreError, match=r"run of another model: model.parameters.sd is 0.6 in the store, got 0.7"):
        ch.open_posterior(copy, model=other)
    with pytest.raises(ChiasmaError, match="model must be a FactorialHMM or a Density, got str"):
        ch.open_posterior(copy, model="other")  # type: ignore[arg-type]


@pytest.mark.parametrize("draws", [0, 2.5, True, "3", 10**9])
def test_open__refuses_draws_that_are_no_count(draws, copy):
    with pytest.raises(ChiasmaError, match=r"draws must be in 1\.\.21"):
        ch.open_posterior(copy, draws=draws)


# ---- Promises --------------------------------------------------------------------------------------------------------


def npy(shape: str, dtype: str = "'<f8'", body: bytes = b"12345678") -> bytes:
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def peak(function: Any, error: type[Exception], match: str) -> int:
    """Bytes taken at most by a call that must fail."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=match):
            function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (npy("(1000000000000,)"), "promises 8,000,000,000,000 bytes"),
        (npy("(-1,)"), "promises"),
        (npy("(2,)"), "promises 16 bytes of shape"),
        (npy("()", "'|O'"), "Python objects, which are never loaded"),
        (npy("(1,)", "'<M9'"), "header"),
        (npy("(" * 90), "header"),
        (b"\x93NUMPY\x09\x00", "header"),
        (b"\x93NUM", "header"),
        (b"", "header"),
    ],
)
def test_npy__promises_are_checked_before_memory_is_taken(content, match):
    assert peak(lambda: read_npy(content), ValueError, match) < 10**6


def test_npz__promises_are_checked_before_memory_is_taken(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", zeros=np.zeros(10**5))
    content = (tmp_path / "bomb.npz").read_bytes()
    assert read_npz(content)["zeros"].shape == (10**5,)
    # The size of the member, in the directory at the end of the archive.
    promised = (10**5 * 8 + 128).to_bytes(4, "little")
    at = content.rindex(promised)
    more = content[:at] + (2**32 - 2).to_bytes(4, "little") + content[at + 4 :]
    assert peak(lambda: read_npz(more), ValueError, "promises more than it can hold") < 10**6


def hostile(path: Path, change: Any) -> None:
    """Change the header of a run and seal it again, as somebody would who knows the format."""
    group = json.loads((path / "zarr.json").read_bytes())
    change(group["attributes"]["chiasma"])
    group["attributes"]["chiasma"]["digest"] = digests.NO_DIGEST
    (path / "zarr.json").write_bytes(digests.seal(json.dumps(group).encode()))


@pytest.mark.parametrize("key", ["n_sites", "n_replicas", "chunk_draws", "n_chains", "n_values", "n_pairs"])
@pytest.mark.parametrize("value", [10**12, -1, 0.5, None, "1", [], 3])
def test_header__of_a_hostile_run_is_refused_before_memory_is_taken(key, value, copy):
    hostile(copy, lambda header: header["layout"].update({key: value}))
    assert peak(lambda: ch.open_posterior(copy), StoreError, ".") < 30 * 10**6


@pytest.mark.parametrize("key", ["layout", "provenance", "committed", "timings", "arrays", "static", "checkpoints"])
@pytest.mark.parametrize("value", [None, [], {}, "text", 10**12])
def test_header__without_a_part_is_refused(key, value, copy):
    hostile(copy, lambda header: header.update({key: value}))
    try:
        ch.open_posterior(copy).draws.load()
    except StoreError:
        return
    assert key in ("timings", "static")  # what is not there is not compared


@pytest.mark.parametrize("shape", [[10**12], [test_store.T - 1], [test_store.T, 10**12], [], ["x"]])
def test_static_array__that_promises_more_than_it_has_is_refused(shape, copy):
    file = copy / "y" / "zarr.json"
    metadata = json.loads(file.read_text())
    metadata["shape"] = shape
    file.write_text(json.dumps(metadata))
    hostile(copy, lambda header: header["static"].update({"y/zarr.json": digests.fingerprint(file.read_bytes())}))
    assert peak(lambda: ch.open_posterior(copy), StoreError, "y") < 30 * 10**6


def test_chunk__that_unpacks_to_more_than_its_size_is_refused(copy):
    from numcodecs.zstd import Zstd

    bomb = Zstd(level=1).encode(np.zeros(10**8, np.uint8))
    (copy / "codes" / "c.0.2.0").write_bytes(bomb)
    assert peak(lambda: ch.open_posterior(copy), StoreError, r"c\.0\.2\.0 cannot be decompressed") < 10**7


def test_checkpoint__with_a_code_that_the_model_does_not_have_is_refused(copy):
    file = copy / "checkpoints" / "chain-0-21.npz"
    content = dict(np.load(file))
    for states in (
        np.full_like(content["states"], 2**40),
        np.full_like(content["states"], -1),
        content["states"].astype(float),
        content["states"][:, :-1],
    ):
        np.savez(file, **content | {"states": states})
        hostile(copy, lambda header: header["checkpoints"].__setitem__(0, digests.fingerprint(file.read_bytes())))
        with pytest.raises(StoreError, match=r"chain.0"):
            test_store.run("compiled", copy, resume=True, draws=30)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("tally_labels", np.zeros_like, "tally_labels must name every replica once"),
        ("tally_labels", lambda x: x[:-1], r"tally_labels must be int64 of shape \(4,\), got \(3,\)"),
        ("iteration", lambda x: x - 10**6, "iteration must not be negative"),
        ("counts", lambda x: x[:, :-1], "counts must be numbers of shape"),
        ("n_draws", lambda x: x - 1, "it belongs to draw 20, not 21"),
    ],
)
def test_checkpoint__that_contradicts_itself_is_refused(name, change, message, copy):
    """With the right digest, as somebody would write it who knows the format."""
    file = copy / "checkpoints" / "chain-0-21.npz"
    content = dict(np.load(file))
    np.savez(file, **content | {name: change(content[name])})
    hostile(copy, lambda header: header["checkpoints"].__setitem__(0, digests.fingerprint(file.read_bytes())))
    with pytest.raises(StoreError, match=message):
        test_store.run("compiled", copy, resume=True, draws=30)


def test_betas__that_differ_from_those_of_the_checkpoints_are_refused(copy):
    file = copy / "checkpoints" / "chain-0-21.npz"
    content = dict(np.load(file))
    np.savez(file, **content | {"betas": content["betas"] / 2})
    hostile(copy, lambda header: header["checkpoints"].__setitem__(0, digests.fingerprint(file.read_bytes())))
    with pytest.raises(StoreError, match="beta does not match the checkpoints; restore it from a backup"):
        ch.open_posterior(copy)


def test_model__that_cannot_be_rebuilt_is_refused(copy):
    hostile(copy, lambda header: header["provenance"]["model"]["parameters"].update({"sd": "wide"}))
    with pytest.raises(
        StoreError, match=r"describes a model that cannot be rebuilt .*open_posterior\(path, model=model"
    ):
        ch.open_posterior(copy)


@pytest.mark.parametrize("error", [RuntimeError("odd"), ZeroDivisionError(), KeyError("x")])
def test_reading__whatever_another_package_raises_is_a_store_error(error, tmp_path):
    with (
        pytest.raises(StoreError, match=f"run cannot be read .{type(error).__name__}"),
        only_store_errors(tmp_path / "run"),
    ):
        raise error
