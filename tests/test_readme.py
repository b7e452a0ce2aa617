"""The documents keep their word: code runs as it stands, commands exist, figures are those of the commands."""

import csv
import inspect
import json
import os
import pkgutil
import re
import shlex
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest
import typer
import zarr
from typer.testing import CliRunner

import chiasma as ch
from chiasma.cli import app
from chiasma.datasets.genome import tumour_genome
from chiasma.io.options import prior_names
from chiasma.io.settings import PLAIN, Settings, settings_of
from chiasma.models.chains import ROW_CHAINS
from chiasma.models.emissions import EMISSIONS
from chiasma.models.priors import PRIORS
from chiasma.results import fit_checks, misfit
from chiasma.results.convergence import RHAT, Convergence
from chiasma.results.misfit import IMPROBABLE
from chiasma.results.run_checks import ESS_PER_CHAIN
from chiasma.results.summary import FEWEST_SITES, SITES, VALUES, _convergence_table
from chiasma.sampling import pilot
from chiasma.sampling.exchanges import EXCHANGES
from chiasma.sampling.plan import EXACT_SECONDS
from chiasma.sampling.progress import COMPILING, FIRST_LINE
from chiasma.sampling.updates import UPDATES
from chiasma.storage.store import FLUSH_SECONDS
from chiasma.tumour.doubts import CLEAR
from chiasma.tumour.landscape import Bounds
from chiasma.tumour.search import RESPONSES
from test_cli import FILES

ROOT = Path(__file__).parents[1]
DEMONSTRATION, LEARNING = "docs/examples/demonstration.md", "docs/how-to/learn.md"
COMMAND_LINE, REFERENCE = "docs/how-to/command-line.md", "docs/reference/index.md"
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md") if "api" not in path.parts)
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "benchmarks/results/core.md", *PAGES)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def table(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table after a heading, without its header."""
    after = dropwhile(lambda line: not line.startswith("|"), text.split(heading, 1)[1].splitlines())
    lines = list(takewhile(lambda line: line.startswith("|"), after))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def commands(text: str, inline: bool = True) -> list[str]:
    """What stands in backticks, and the lines of console blocks."""
    consoles = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    marked = re.findall(r"`([^`\n]+)`", text) if inline else []
    return marked + [line for console in consoles for line in console.splitlines()]


@pytest.mark.slow
def test_python_blocks__run_in_order_and_print_what_they_say(capsys):
    pages = [read(name) for name in ("README.md", LEARNING)]
    found = [re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL) for page in pages]
    assert all(found)
    blocks = [block for part in found for block in part]
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
        said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands__exist(name):
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    known = typer.main.get_command(app).commands
    for command in commands(read(name)):
        match command.split():
            case ["make", target, *_]:
                assert target in targets
            case ["chiasma", option] | ["chiasma", "--plugin" as option, _] if option.startswith("-"):
                assert option in {name for parameter in typer.main.get_command(app).params for name in parameter.opts}
            case ["chiasma", "--plugin", _, subcommand, *words] | ["chiasma", subcommand, *words]:
                options = {option for parameter in known[subcommand].params for option in parameter.opts}
                options |= {"--help", "--help-all"}
                assert {word for word in words if word.startswith("-")} <= options
            case [python, script, *_] if python.endswith("python") and not script.startswith("-"):
                assert (ROOT / script).is_file()


def test_commands__are_all_documented():
    known = set(typer.main.get_command(app).commands)
    assert set(re.findall(r"^\| `chiasma (\w+)` \|", read(COMMAND_LINE), re.MULTILINE)) == known
    page = read("docs/reference/commands.md")
    assert set(re.findall(r"^## chiasma (\w+)$", page, re.MULTILINE)) == known
    assert set(re.findall(r'^options\("(\w+)"\)$', page, re.MULTILINE)) == known


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links__lead_to_files(name):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", read(name)):
        assert ((ROOT / name).parent / link).exists()


@pytest.mark.slow
def test_quick_start__runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = read("README.md").split("## Quick start")[1].split("\n## ")[0]
    lines = [shlex.split(line) for line in commands(text, inline=False)]
    ours = [words for program, *words in lines if program == "chiasma"]
    assert [words[0] for words in ours] == ["simulate", "tumour", "simulate", "fit", "show"]
    for words in ours[2:]:  # the tumour is that of `chiasma demo`, which test_cli.py runs
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    rivals = {}
    with (tmp_path / "run/explanations.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            where = f"{row['chromosome']}:{row['start']}-{int(row['end']) - 1}"
            rivals.setdefault(where, []).append((row["state"], float(row["probability"])))
    for where, _, *shown in table(read(DEMONSTRATION), "have rival explanations"):
        for state, probability, found in zip(shown[::2], shown[1::2], rivals[where], strict=False):
            assert state == found[0]
            assert float(probability) == pytest.approx(found[1], abs=0.05)
    n_segments = len((tmp_path / "run/segments.tsv").read_text().splitlines()) - 1
    assert f"{len(rivals)} of the {n_segments} segments have rival" in read(DEMONSTRATION)


def test_settings_block__is_the_model_of_the_genome(tmp_path):
    block, rows, _, priors = re.findall(r"^```toml\n(.*?)^```", read(COMMAND_LINE), re.MULTILINE | re.DOTALL)
    (tmp_path / "a.toml").write_text(block)
    settings = Settings.read(tmp_path / "a.toml")
    assert settings_of(settings.model()) == settings_of(tumour_genome(1, 60).model)
    assert settings.sampler()["draws"] == 1000
    (tmp_path / "b.toml").write_text(priors)
    learned = settings.merged(**Settings.read(tmp_path / "b.toml").sections).model()
    assert learned.parameters.names == ["enter", "weights", "depth", "sd"]
    (tmp_path / "c.toml").write_text(f"[model]\nsd = 20\n{rows}")
    assert Settings.read(tmp_path / "c.toml").model().target([0.0]).n_states == 27


def test_rows__every_key_and_prior_is_in_a_table():
    section = read(COMMAND_LINE).split("## Rows in a settings file")[1].split("\n## ")[0]
    keys = table(section, "A row knows these keys")
    assert {row[0].strip("`") for row in keys} == {*PLAIN, *ROW_CHAINS}
    for key, meaning, _ in keys:
        arguments = ROW_CHAINS[key.strip("`")].arguments if key.strip("`") in ROW_CHAINS else ()
        assert all(f"`{argument}`" in meaning for argument in arguments)
    priors = {row[0].strip("`"): row[1] for row in table(section, "one parameter for all rows")}
    assert priors.keys() == prior_names().keys()
    for name, kind in prior_names().items():
        assert tuple(re.findall(r"`(\w+)`", priors[name])) == kind.arguments


def test_rows__the_complete_example_runs(tmp_path, monkeypatch, light_pictures):
    section = read(COMMAND_LINE).split("A complete settings file")[1].split("\n## ")[0]
    (toml,) = re.findall(r"^```toml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    (command,) = commands(section, inline=False)
    monkeypatch.chdir(tmp_path)
    Path("house.toml").write_text(toml)
    watts = Settings.read(Path("house.toml")).model().simulate(30, seed=1)[1]
    Path("watts.csv").write_text("minute,watts\n" + "".join(f"{t},{y}\n" for t, y in enumerate(watts)))
    quick = ["--draws", "4", "--warmup", "4", "--chains", "1", "--tables-only"]
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], *quick])
    assert result.exit_code == 0, result.output
    with Path("house/parameters.tsv").open() as file:
        learned = [row["parameter"] for row in csv.DictReader(file, delimiter="\t")]
    named = section.split("`house/parameters.tsv` has the parameters as ")[1].split(". [")[0]
    assert learned == re.findall(r"`([^`]+)`", named)


def test_run_table__names_what_a_fit_writes():
    named = {row[0].strip("`").rstrip("/") for row in table(read(COMMAND_LINE), "## The run directory")}
    assert named == {*FILES, "summary.json", "parameters.tsv"}  # the last where parameters are learned


def test_figures__are_small():
    for path in (ROOT / "docs/figures").glob("demo-*.png"):
        assert path.stat().st_size < 300_000
        assert f"figures/{path.name}" in read("README.md") + read(DEMONSTRATION)


def test_speed_table__is_that_of_the_results():
    """How many times longer the faster variant of a package takes, K = 6 and 10, T = 10,877."""
    peers = read("benchmarks/results/peers.md")

    def ratios(heading: str, package: str) -> list[str]:
        lines = [line for line in table(peers, heading) if line[0].startswith(package)]
        times = [[re.search(r"\(([\d,.]+)\)", line[place])[1] for line in lines] for place in (6, 8)]
        return [min(own, key=lambda text: float(text.replace(",", ""))) for own in times if own] or ["-", "-"]

    headings = (
        "## Log-likelihood,",
        "## Marginals",
        "## Most",
        "## One draw",
        "## Log-likelihood and",
        "## A further draw",
    )
    for (_, *shown), heading in zip(table(read("README.md"), "## Measured"), headings, strict=True):
        expected = ratios(heading, "dynamax") + ratios(heading, "hmmlearn")
        assert [float(cell.strip("× ").replace(",", "") if cell != "-" else "nan") for cell in shown] == pytest.approx(
            [float(text.replace(",", "") if text != "-" else "nan") for text in expected], rel=0.05, nan_ok=True
        )


def test_simulated_channels__are_those_of_the_results():
    page = " ".join(read("docs/examples/ion-channels.md").split())
    results = read("verification/results/channels.md")
    known, right = re.search(r"Of (\d+) numbers of channels that can be known, (\d+) are right", results).groups()
    assert f"Of the {known} numbers of channels that can be known, {right} are right" in page
    for line in (
        r"Of the \d+ numbers with a .*?of the \d+ others, \d+",
        r"The 90% intervals of \d+ rates hold the .*?%",
    ):
        assert re.search(line, results)[0] in page


def test_cost_of_cohorts__is_that_of_the_results():
    cost = json.loads(read("benchmarks/results/cohort-cost.json"))
    assert f"`{cost['command']}`" in read("docs/cohort-slurm.md")
    many, merge = 10_000, cost["merge"] / cost["samples"]
    worker, client = f"{cost['worker'] / 2**20:.0f} MiB", f"{cost['client'] / 2**20:.0f} MiB"
    assert [row[1:] for row in table(read("docs/cohort-slurm.md"), "## Cost")] == [
        [f"{cost['cpu']:.1f} s", f"{many * cost['cpu'] / 3600:.0f} core hours"],
        ["", f"{many * cost['cpu'] / 100 / 60:.0f} min"],
        [f"{cost['disk'] / 2**20:.1f} MiB", f"{many * cost['disk'] / 2**30:.0f} GiB"],
        [f"{1000 * merge:.0f} ms", f"{many * merge / 60:.0f} min"],
        [worker, ""],
        [client, ""],
    ]
    for memory in (worker, client):
        assert memory in read("docs/cohort-laptop.md")


def test_limits__in_prose_are_those_of_the_code():
    """Numbers and words of numbers, not sentences."""
    words = {5: "five", 8: "eight", 10: "ten"}
    limits = {
        "docs/how-to/fit.md": [
            f"below {IMPROBABLE:.1%}",
            f"More than {fit_checks.UNLIKELY:.1%}",
            f"Above {fit_checks.WIDER:g}",
            f"Below {1 / fit_checks.WIDER:g}",
            f"More than {fit_checks.DISPLACED:.0%}",
            f"more than {fit_checks.MUCH_DISPLACED:.0%}",
            {0.25: "a quarter"}[fit_checks.ABSURD],
            f"{words[misfit.DRAWS]} draws",
            f"{words[int(fit_checks.SURE)]} standard errors",
            *(f"`{kind.__name__}`" for kind in EMISSIONS.values()),
        ],
        "docs/how-to/convergence.md": [
            f"Values above {RHAT}",
            f"at least {ESS_PER_CHAIN} per chain",
            f"up to {SITES} ",
            f"at least {FEWEST_SITES}",
            f"{VALUES // SITES:,} draws",
        ],
        "docs/threat-model.md": [f"at most {FLUSH_SECONDS:g} s"],
        "docs/how-to/resume.md": [f"{words[int(FLUSH_SECONDS)]} seconds"],
        COMMAND_LINE: [f"after {words[int(FIRST_LINE)]} seconds", f"`{COMPILING}`"],
    }
    for page, texts in limits.items():
        found = " ".join(read(page).split())
        assert [text for text in texts if text not in found] == []


def test_display__is_explained():
    """Every stage of a run that the display names, and every column of the table of the chains."""
    stages = set()
    for path in (Path(ch.__file__).parent / "sampling").glob("*.py"):
        stages |= set(re.findall(r'display\.begin\(\s*"([^"]+)"', path.read_text(encoding="utf-8")))
    assert {"draws", "warm-up", "pilot"} <= stages
    explained = " ".join(row[0] for row in table(read(COMMAND_LINE), "## While it runs"))
    assert {stage for stage in stages if f"`{stage}`" not in explained} == set()
    part = Convergence(
        name="level", n=1, constant=0, stuck=0, disagree=0, rhat_worst=1.0, rhat_median=1.0, ess_worst=9.0,
        ess_median=9.0, worst_site=0,
    )  # fmt: skip
    columns = [column.header.replace("\n", " ") for column in _convergence_table((part,)).columns]
    assert [row[0] for row in table(read("docs/how-to/convergence.md"), "## The table")] == columns[1:]


def numbers_with_units(text: str) -> set[str]:
    """Measured quantities in prose: figures with a unit of time, memory or speed, outside code and inclusions."""
    prose = re.sub(r"^```.*?^```|`[^`]*`|\$\$.*?\$\$", "", text, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"\d[\d.,]* (?:ms|s|min|MiB|GiB|core hours|hours|times faster|×)(?!\w)", prose))


def test_measured_numbers__are_held_by_a_test_or_come_from_results():
    held = {
        "docs/cohort-slurm.md": 9,  # test_cost_of_cohorts
        "docs/cohort-laptop.md": 2,
        "docs/threat-model.md": 1,  # the interval between flushes
        "README.md": 20,  # test_speed_table
    }
    found = {name: len(numbers_with_units(read(name))) for name in ("README.md", *PAGES) if "paper" not in name}
    assert {name: n for name, n in found.items() if n} == held


def test_decimals__in_prose_are_settings_or_held_by_a_test():
    """A figure on a page that nothing executes or compares would go stale unseen: a new one must be listed here."""
    held = {
        "README.md": 8,  # test_speed_table; 3.11 is Python, the others are in the example
        "docs/cohort-slurm.md": 2,  # test_cost_of_cohorts
        "docs/examples/demonstration.md": 6,  # test_quick_start
        "docs/examples/ion-channels.md": 1,  # test_simulated_channels
        "docs/examples/tumour.md": 2,  # test_tumour_page, and the published ploidy
        "docs/how-to/command-line.md": 1,
        "docs/how-to/convergence.md": 6,  # three of them: test_page__has_the_limits_of_the_ladder
        "docs/how-to/faq.md": 3,  # weights of an example
        "docs/how-to/fit.md": 4,
        "docs/how-to/own-file.md": 1,
        "docs/how-to/tables.md": 2,
        "docs/reference/findings.md": 7,  # limits of the checks
        "docs/start.md": 5,
    }
    code = re.compile(
        r"^```.*?^```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|<!-- results.*?<!-- end -->", re.MULTILINE | re.DOTALL
    )
    pages = [name for name in ("README.md", *PAGES) if "paper" not in name]
    found = {name: len(re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", code.sub("", read(name)))) for name in pages}
    assert {name: n for name, n in found.items() if n} == held


def test_tumour_page__has_the_limits_of_the_code():
    page = " ".join(read("docs/examples/tumour.md").split())
    assert f"power of about {min(RESPONSES):g}" in page
    assert f"less than about {CLEAR:g} " in page
    assert f"at most {Bounds().clones[1]} unless" in page


def test_thresholds__of_the_pilot():
    page = " ".join(read("docs/explanation/ladders.md").split())
    assert f"$S < {pilot.MIXING}$" in page
    assert f"$S > {pilot.STUCK}$" in page


def test_readme__is_short():
    assert len(read("README.md").splitlines()) <= 120


def test_reference__lists_every_public_name():
    listed = set(re.findall(r"^   ~chiasma\.([\w.]+)$", read(REFERENCE), re.MULTILINE))
    modules = {name for name in ch.__all__ if inspect.ismodule(getattr(ch, name)) and not callable(getattr(ch, name))}
    wanted = {name for name in ch.__all__ if name not in modules}
    for name in modules:
        module = getattr(ch, name)
        own = {key: value for key, value in vars(module).items() if inspect.isfunction(value) and key[0] != "_"}
        wanted |= {f"{name}.{key}" for key, value in own.items() if value.__module__.startswith(module.__name__)}
    assert wanted - listed == set()
    for name in listed:
        assert pkgutil.resolve_name(f"chiasma.{name}"), name


def test_choices__are_all_on_the_page_that_compares_them():
    page = read("docs/how-to/choose.md")
    errors = {
        name for name in ch.__all__ if isinstance(getattr(ch, name), type) and issubclass(getattr(ch, name), Exception)
    }
    kinds = {kind.__name__ for registry in (EMISSIONS, PRIORS, UPDATES, EXCHANGES) for kind in registry.values()}
    named = set(re.findall(r"`ch\.(\w+) <chiasma\.\1>`", page))
    assert kinds | errors | {"Custom", "Table", "Compose"} <= named
    assert named <= set(ch.__all__)
    assert f"(`exact_seconds=`, {EXACT_SECONDS:g} by default" in page


def test_site__every_page_is_in_a_table_of_contents():
    listed = {"docs/index.md"}
    for page in PAGES:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", read(page), re.MULTILINE | re.DOTALL):
            lines = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
            names = [line.rpartition("<")[2].rstrip(">") for line in lines]  # a page, or: title <page>
            listed |= {os.path.normpath((Path(page).parent / name).with_suffix(".md")) for name in names}
    assert {page for page in PAGES if not page.startswith("docs/results/")} == listed


def test_store_page__names_the_arrays_of_a_store(tmp_path):
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    data = ch.Observations([0.1, 1.0, 0.9], gaps=[1.0, 2.0])
    options = {"draws": 4, "warmup": 2, "chains": 2, "seed": 1, "progress": False}
    ch.sample(model, data, store=tmp_path / "run.zarr", **options)
    group = zarr.open_group(tmp_path / "run.zarr", mode="r")
    shapes = {name: ", ".join(array.metadata.dimension_names) for name, array in group.arrays()}
    for names, shape, _ in table(read("docs/how-to/read-a-store.md"), "to read it"):
        found = [shapes[name] for name in re.findall(r"`(\w+)`", names)]
        assert found in ([shape], shape.split(", "))
    assert group.attrs["chiasma"]["committed"] == [4, 4]
