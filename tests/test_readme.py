"""The documents keep their word: code runs as it stands, commands exist, figures are those of the commands."""

import re
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest
import typer

from chiasma.cli import app
from chiasma.experiments.study import compare_updates, simulation_study

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "benchmarks/results/core.md")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def table(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table after a heading, without its header."""
    after = dropwhile(lambda line: not line.startswith("|"), text.split(heading, 1)[1].splitlines())
    lines = list(takewhile(lambda line: line.startswith("|"), after))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def commands(text: str) -> list[str]:
    """What stands in backticks, and the lines of console blocks."""
    consoles = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text) + [line for console in consoles for line in console.splitlines()]


def test_python_blocks__run_in_order_and_print_what_they_say(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", read("README.md"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
        said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
        printed = capsys.readouterr().out.splitlines()
        assert printed == said or not said
        assert all(f"`{line}`" in read("README.md") for line in printed if line not in said)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands__exist(name):
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    known = typer.main.get_command(app).commands
    for command in commands(read(name)):
        match command.split():
            case ["make", target, *_]:
                assert target in targets
            case ["chiasma", subcommand, *words]:
                options = {option for parameter in known[subcommand].params for option in parameter.opts}
                assert {word for word in words if word.startswith("-")} <= options
            case [python, script, *_] if python.endswith("python"):
                assert (ROOT / script).is_file()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links__lead_to_files(name):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", read(name)):
        assert ((ROOT / name).parent / link).exists()


def test_demo_table__is_what_the_demo_computes():
    shown = table(read("README.md"), "## What the demonstration shows")
    comparison = compare_updates(simulation_study(seed=1), 1_000, seed=1)
    assert [row[0] for row in shown] == [entry.name for entry in comparison.entries]
    for row, entry in zip(shown, comparison.entries, strict=True):
        # Another processor may round a sum differently and so, now and then, take another branch.
        assert float(row[1]) == pytest.approx(entry.error, abs=0.02)
        assert float(row[2]) == pytest.approx(entry.third_row, abs=0.05)


def test_speed_table__is_that_of_the_results():
    shown = table(read("README.md"), "## Speed")
    assert shown == table(read("benchmarks/results/core.md"), "## K = 6")
