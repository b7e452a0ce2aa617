"""The size and the order of the house: files, lines, names that occur twice, and patterns that the design rules out.

python tools/house.py [ROOT]
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

FORBIDDEN = {"borders", "parts", "shown", "eight", "scouts"}


def size(root: Path) -> str:
    files = sorted(root.rglob("*.py"))
    return f"{len(files)} files, {sum(len(file.read_text().splitlines()) for file in files):,} lines"


def main(root: Path) -> None:
    source = root / "src" / "chiasma"
    for part in (source, root / "tests"):
        print(f"{part.relative_to(root)}: {size(part)}")
    for package in sorted(path for path in source.iterdir() if path.is_dir() and path.name != "__pycache__"):
        print(f"  {package.name}: {size(package)}")
    classes: dict[str, list[str]] = defaultdict(list)
    targets, nones, patterns, constants, modules = [], [], [], 0, []
    for file in sorted(source.rglob("*.py")):
        name = str(file.relative_to(source))
        if file.stem in FORBIDDEN:
            modules.append(name)
        text = file.read_text()
        lines = text.splitlines()
        for node in ast.walk(tree := ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                place = f"{name}:{node.lineno}"
                if called == "isinstance" and re.search(r"Target\b", ast.unparse(node.args[1])):
                    targets.append(place)
                if called.startswith("re."):
                    patterns.append(f"{place}: {lines[node.lineno - 1].strip()[:110]}")
            if isinstance(node, ast.Compare) and re.search(r"\brows is (not )?None", ast.unparse(node)):
                nones.append(f"{name}:{node.lineno}")
        constants += sum(
            isinstance(node, ast.Assign | ast.AnnAssign) and bool(re.match(r"_?[A-Z][A-Z0-9_]+\b", ast.unparse(node)))
            for node in tree.body
        )
    twice = {name: places for name, places in classes.items() if len(places) > 1}
    print(f"class names that occur twice: {len(twice)}")
    for name, places in sorted(twice.items()):
        print(f"  {name}: {', '.join(places)}")
    print(f"modules with a name to avoid: {len(modules)} {', '.join(modules)}")
    print(f"isinstance(..., Target): {len(targets)} {' '.join(targets)}")
    print(f"rows is None: {len(nones)} {' '.join(nones)}")
    print(f"module-level constants: {constants}")
    print(f"regular expressions, to be read: {len(patterns)}")
    for line in patterns:
        print(f"  {line}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve())
