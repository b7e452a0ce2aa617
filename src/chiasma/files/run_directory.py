"""The directory of a run: run.zarr, the settings and the data of the run, and the files of its report."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiasma.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    from chiasma.files.settings import Settings
    from chiasma.files.tables import Signal
    from chiasma.results.posterior import Posterior


class RunDirectory:
    """The files of one run; writes those that must exist before sampling begins."""

    def __init__(self, path: Path):
        self.path = path
        self.store = path / "run.zarr"
        self.settings_file = path / "settings.toml"
        self.data_file = path / "data.npz"

    def begin(self, settings: Settings, signal: Signal, source: Path) -> None:
        """Store the settings and the data, so that the run can be resumed and shown without other files."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            signal.save(self.data_file)
            self.keep_settings(settings, source)
        except OSError as error:
            raise StoreError(f"cannot write to {self.path}: {error.strerror or error}; choose another --out") from error

    def keep_settings(self, settings: Settings, source: Path) -> None:
        settings.write(self.settings_file, f"Settings of a fit of {source}.")

    def abandon(self) -> None:
        """Remove what `begin` wrote, if sampling never began."""
        if not self.store.exists():
            self.settings_file.unlink(missing_ok=True)
            self.data_file.unlink(missing_ok=True)
            if not any(self.path.iterdir()):
                self.path.rmdir()

    def check_new(self) -> None:
        """Raise InvalidInput if the directory is not empty: nothing is ever overwritten."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            resumable = self.settings_file.exists()
            more = f", add --resume to continue that run, or look at it with: {self.how_to_show()}"
            raise InvalidInput(f"{self.path} exists already; choose another --out{more if resumable else ''}")

    def stored_settings(self) -> Settings:
        """Settings of a run to resume."""
        from chiasma.files.settings import Settings

        if not self.settings_file.exists():
            raise InvalidInput(f"there is no run in {self.path} to resume; drop --resume to start one")
        return Settings.read(self.settings_file)

    def open(self) -> tuple[Posterior, Signal]:
        """The draws so far, and the data with their site labels."""
        import chiasma as ch
        from chiasma.files.tables import Signal

        if not self.store.exists():
            begun = self.settings_file.exists()
            how = "it has no draws yet" if begun else "give a directory that chiasma fit --out wrote"
            raise InvalidInput(f"there is no run in {self.path}: {how}")
        posterior = ch.open_posterior(self.store)
        signal = Signal.load(self.data_file)
        if posterior.draws.sizes["draw"] == 0:
            raise InvalidInput(f"the run in {self.path} has no draws yet; {self.how_to_resume()}")
        return posterior if posterior.data is not None else replace(posterior, data=signal.data), signal

    def wanted_draws(self) -> int:
        """Draws per chain that were requested."""
        return int(self.stored_settings().sections["sampler"]["draws"])

    def about(self) -> dict[str, Any]:
        """The entries of summary.json that describe the run, and what the page says of its settings."""
        from chiasma import __version__

        settings = self.settings_file.read_text(encoding="utf-8")
        source = re.match(r"# Settings of a fit of (.+)\.\n", settings)
        return {
            "chiasma": __version__,
            "draws_wanted": self.wanted_draws(),
            "name": self.path.resolve().name if source is None else Path(source[1]).name,
            "settings": settings,
            # The page stands beside the settings, wherever the directory is moved to.
            "repeat": f"chiasma fit DATA --model {self.settings_file.name} --out ANOTHER",
            "value": self.stored_settings().sections["data"].get("value"),
        }

    def how_to_resume(self, source: Path | None = None) -> str:
        data = "DATA" if source is None else shlex.quote(str(source))
        return f"continue with: chiasma fit {data} --out {shlex.quote(str(self.path))} --resume"

    def how_to_show(self) -> str:
        return f"chiasma show {shlex.quote(str(self.path))}"
