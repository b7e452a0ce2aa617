"""The directory of a run: run.zarr, the settings and the data of the run, and the files of its report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiasma.atomic import make_directory, partials, remove
from chiasma.errors import InvalidInput, StoreError
from chiasma.io.plugins import program
from chiasma.storage.locks import lock_file, only_writer

if TYPE_CHECKING:
    from chiasma.io.settings import Settings
    from chiasma.io.signal import Signal
    from chiasma.results.posterior import Posterior


class RunDirectory:
    """The files of one run; writes those that must exist before sampling begins."""

    def __init__(self, path: Path):
        self.path = path
        self.store = path / "run.zarr"
        self.settings_file = path / "settings.toml"
        self.data_file = path / "data.npz"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock of the run; raises StoreError if another process writes it."""
        is_new = not self.path.exists()
        with self._clear_errors():
            make_directory(self.path)
        self._refuse_links()
        try:
            with only_writer(self.store):
                remove(partials(self.path, [self.settings_file.name, self.data_file.name]))
                yield
        finally:
            if is_new:
                with suppress(OSError):
                    self.path.rmdir()  # only if nothing was written

    def begin(self, settings: Settings, signal: Signal, source: Path, resume: bool) -> None:
        """Store the settings, then the data, so that the run can be resumed and shown without other files.

        A run that is killed in between has its settings, which are enough to resume it.
        """
        if resume:
            self._check_same_data(signal, source)
        else:
            self.check_new()
            self.keep_settings(settings, source)
        if not self.store.exists():
            self.keep_data(signal)

    def _check_same_data(self, signal: Signal, source: Path) -> None:
        """Raise StoreError for other data than the run's: the store would only say that digests differ."""
        from chiasma.results.provenance import describe_data
        from chiasma.storage.opening import stored_digests

        if not self.store.exists():
            return
        old, new = stored_digests(self.store), describe_data(signal.data)
        if old == new:
            return
        made = self.source()
        another = f"choose another --out for {source}"
        if old.get("y") != new["y"]:
            named = "" if made is None else f", which was made from {made}"
            raise StoreError(
                f"{source} holds other data than the run in {self.path}{named}; resume with the data file of the run, "
                f"or {another}"
            )
        raise StoreError(
            f"{source} holds the values of the run in {self.path}, but its positions or chromosomes are others; name "
            f"the columns as in that run (--position, --chromosome, --gap-unit), or {another}"
        )

    def keep_settings(self, settings: Settings, source: Path) -> None:
        with self._clear_errors():
            settings.write(self.settings_file, f"Settings of a fit of {source}.")

    def keep_data(self, signal: Signal) -> None:
        if not self.data_file.exists():
            with self._clear_errors():
                signal.save(self.data_file)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"cannot write to {self.path}: {error.strerror or error}; choose another --out") from error

    def _refuse_links(self) -> None:
        """Nothing is written outside the directory: its folders must be its own."""
        for folder in (self.store, self.path / "figures"):
            if folder.is_symlink():
                raise StoreError(
                    f"{folder} is a symbolic link, and writing would leave the run; put what it leads to in its place"
                )

    def abandon(self) -> None:
        """Remove what `begin` wrote, if sampling never began."""
        if not self.store.exists():
            self.settings_file.unlink(missing_ok=True)
            self.data_file.unlink(missing_ok=True)

    def check_new(self) -> None:
        """Raise InvalidInput if the directory is not empty: nothing is ever overwritten."""
        if self.path.exists() and (not self.path.is_dir() or self._holds_something()):
            resumable = self.settings_file.exists()
            more = f", add --resume to continue that run, or look at it with: {self.how_to_show()}"
            raise InvalidInput(f"{self.path} exists already; choose another --out{more if resumable else ''}")

    def _holds_something(self) -> bool:
        """Whether there is more than what a run leaves that is killed as it begins."""
        names = [self.settings_file.name, self.data_file.name, self.store.name]
        ignored = {lock_file(self.store), *partials(self.path, names)}
        return any(path not in ignored for path in self.path.iterdir())

    def stored_settings(self) -> Settings:
        """Settings of a run to resume, with as many draws as were asked for last."""
        from chiasma.io.settings import Settings
        from chiasma.storage.opening import stored_goal

        if not self.settings_file.exists():
            if self.store.exists():
                raise StoreError(f"{self.settings_file} is missing, and the run needs it; restore it from a backup")
            raise InvalidInput(f"there is no run in {self.path} to resume; drop --resume to start one")
        settings = Settings.read(self.settings_file)
        draws = settings.sections["sampler"].get("draws")
        # A run that was killed while it was extended has more draws to come than its settings say.
        if self.store.exists() and isinstance(draws, int):
            settings = settings.merged(sampler={"draws": max(draws, stored_goal(self.store))})
        return settings

    def open(self) -> tuple[Posterior, Signal]:
        """The draws so far, and the data with their site labels."""
        import chiasma as ch
        from chiasma.io.signal import Signal
        from chiasma.results.provenance import describe_data
        from chiasma.storage.opening import differences_from

        self._need_draws()
        self._refuse_links()
        settings = self.stored_settings()
        posterior = ch.open_posterior(self.store)
        signal = Signal.load(self.data_file)
        seed = settings.sections["sampler"].get("seed", -1)
        if changed := differences_from(self.store, settings.model(signal.covariates), seed):
            raise StoreError(
                f"{self.settings_file} was changed after the run: {'; '.join(changed)}; write it as it was, or restore "
                "it from a backup"
            )
        if posterior.data is not None and describe_data(posterior.data) != describe_data(signal.data):
            raise StoreError(
                f"{self.data_file} holds other data than {self.store}; restore it from a backup, or delete it and "
                f"{self.how_to_resume()}"
            )
        return posterior if posterior.data is not None else replace(posterior, data=signal.data), signal

    def _need_draws(self) -> None:
        """Raise InvalidInput where nothing is stored; a store is there as a whole or not at all."""
        if self.store.exists():
            return
        if self.settings_file.exists():
            raise InvalidInput(
                f"the run in {self.path} has no draws yet: the first are stored after warm-up. If it was stopped, "
                f"{self.how_to_resume()}"
            )
        raise InvalidInput(f"there is no run in {self.path}: give a directory that chiasma fit --out wrote")

    def check(self) -> str:
        """Read every file of the run and compare it with its digest: a sentence, or a StoreError with all problems."""
        import chiasma as ch

        self._need_draws()
        found = ch.check_store(self.store)
        if found.problems:
            raise StoreError("; ".join(found.problems))
        self.open()  # compares the data file with the store
        # The settings are written first: a run that was to go on may have been killed before the store knew of it.
        wanted = max(found.draws_wanted, self.wanted_draws())
        so_far = "complete" if replace(found, draws_wanted=wanted).complete else f"not complete, {self.how_to_resume()}"
        return (
            f"{self.store} is sound: {found.n_files} files, {found.n_bytes:,} bytes; {found.n_draws:,} of {wanted:,} "
            f"draws per chain are stored: {so_far}"
        )

    def wanted_draws(self) -> int:
        """Draws per chain that were requested."""
        return int(self.stored_settings().sections["sampler"]["draws"])

    def about(self) -> dict[str, Any]:
        """The entries of summary.json that describe the run, and what the page says of its settings."""
        from chiasma import __version__

        source = self.source()
        return {
            "chiasma": __version__,
            "draws_wanted": self.wanted_draws(),
            "name": self.path.resolve().name if source is None else source.name,
            "settings": self.settings_file.read_text(encoding="utf-8"),
            "resume": self.how_to_resume(),
            # The page is beside the settings, wherever the directory is moved to.
            "repeat": f"chiasma fit DATA --model {self.settings_file.name} --out ANOTHER",
        }

    def source(self) -> Path | None:
        """The data file of the run, as it was given; None where the settings do not name it."""
        try:
            settings = self.settings_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        named = re.match(r"# Settings of a fit of (.+)\.\n", settings)
        # A name with characters that were spelled out cannot be told apart from one with backslashes.
        return None if named is None or "\\" in named[1] else Path(named[1])

    def how_to_resume(self, source: Path | None = None) -> str:
        source = source or self.source()
        data = "DATA" if source is None else shlex.quote(str(source))
        return f"continue with: {program()} fit {data} --out {shlex.quote(str(self.path))} --resume"

    def how_to_show(self) -> str:
        return f"{program()} show {shlex.quote(str(self.path))}"
