"""Commands whose options come from the table of settings (`chiasma.io.options`)."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.main import get_command

from chiasma.cli.help import Command

# One option of fit, show, cohort and tumour: its name, and what it does. Answers of tumours are not for chiasma show.
TABLES_ONLY = "--tables-only"
TABLES_ONLY_TUMOUR = "Write tables and summary.json, but no report.html and no figures."
TABLES_ONLY_HELP = f"{TABLES_ONLY_TUMOUR[:-1]}; chiasma show writes them later."


class SettingsCommand(Command):
    """A command with its own options and the settings as options.

    The table imports the models, the samplers and numba, which is slow. It is therefore read only when the options of
    the command are needed, and not for the list of commands or for another command.
    """

    def __init__(self, **attributes: Any):
        super().__init__(**attributes)
        del self.params, self.callback

    def __getattr__(self, name: str) -> Any:
        if name not in ("params", "callback"):
            raise AttributeError(name)
        app = typer.Typer(add_completion=False)
        app.command()(self.function())
        made = get_command(app)
        self.params, self.callback = made.params, made.callback
        return getattr(self, name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Report an unknown emission before its options, which are unknown, too."""
        from chiasma.io.settings import Settings

        for given, value in pairwise([*args, ""]):
            name, has_value, joined = given.partition("=")
            if name == "--emission":
                Settings(model={"emission": joined if has_value else value}).emission_class()
        return super().parse_args(ctx, args)

    @abstractmethod
    def function(self) -> Callable[..., None]:
        """What typer is given: the signature has the options."""


def setting_options(without: Sequence[str] = ()) -> list[inspect.Parameter]:
    """One option per setting, in the order of the help, but for the keys `without`; also --model and --learn."""
    from chiasma.io.options import all_settings, learn_help

    settings: dict[str, list[inspect.Parameter]] = {}
    for one in all_settings():
        if one.key not in without:
            made = option(one.key, one.kind | None, one.section.title(), one.help, one.flag, min=one.least)
            settings.setdefault(one.section, []).append(made)
    file = "TOML file with \\[data], \\[model], \\[priors] and \\[sampler] settings; options override it."
    return [
        *settings["data"],
        option("model", Path | None, "Model", file),
        *settings["model"],
        option("learn", str | None, "Model", learn_help()),
        *settings["sampler"],
    ]


def borrowed_options(command: Callable[..., None], names: Sequence[str], panel: str) -> list[inspect.Parameter]:
    """Some options of another command, none of them given by default."""
    signature = inspect.signature(command, eval_str=True).parameters
    made = []
    for name in names:
        kind, info = get_args(signature[name].annotation)
        # In Annotated, typer keeps the first flag as a default until it reads the signature.
        flags = [flag for flag in (info.default, *(info.param_decls or ())) if isinstance(flag, str)]
        made.append(option(name, kind | None, panel, info.help, *flags, min=info.min, max=info.max))
    return made


def with_options(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """The function with a signature for typer."""

    def command(**given: Any) -> None:
        function(**given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def argument(name: str, kind: Any, text: str, **more: Any) -> inspect.Parameter:
    return _parameter(name, kind, typer.Argument(help=text, show_default=False, **more))


def option(
    name: str, kind: Any, panel: str, text: str, *flags: str, default: Any = None, **more: Any
) -> inspect.Parameter:
    info = typer.Option(*flags, help=text, rich_help_panel=panel, show_default=False, **more)
    return _parameter(name, kind, info, default)


def _parameter(name: str, kind: Any, info: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=default)
