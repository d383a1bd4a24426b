"""The documentation is true: its examples load, its links lead somewhere, its tables are those of the models."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.settings.load import load
from gateway.settings.schema import json_schema

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "requirements")
PAGES = sorted(
    {
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")),
    }
)
EXAMPLE = re.compile(r"<!-- check -->\n+```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TABLE = re.compile(r"<!-- model: (\w+) -->\n((?:\|.*\n)+)")
ROW = re.compile(r"^\| `(\w+)` \|(.*)\|$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def examples() -> Iterator[tuple[str, str]]:
    """Name and text of every settings file in the documentation."""
    for page in PAGES:
        for number, text in enumerate(EXAMPLE.findall(page.read_text("utf-8")), 1):
            yield f"{name_of(page)}-{number}", text


EXAMPLES = dict(examples())


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_the_check(name: str, tmp_path: Path) -> None:
    path = tmp_path / "stanchion.yaml"
    path.write_text(EXAMPLES[name], "utf-8")
    needed = re.findall(r"\$\{(\w+)\}", EXAMPLES[name])
    settings = load(path, {variable: f"value-of-{variable}" for variable in needed})
    assert settings.routes


def test_the_readme_and_the_reference_have_an_example() -> None:
    assert {"README.md-1", "docs/configuration.md-1"} <= set(EXAMPLES)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    broken = [link for link in LINK.findall(text) if "://" not in link and not leads_somewhere(page, link)]
    assert broken == []


def leads_somewhere(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if not target.exists():
        return False
    return not anchor or anchor in {anchor_of(heading) for heading in HEADING.findall(target.read_text("utf-8"))}


def anchor_of(heading: str) -> str:
    """A heading's anchor, as renderers of Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def models() -> dict[str, dict[str, Any]]:
    """The keys of each policy, with their schemas."""
    schema = json_schema()
    found = {name: body.get("properties", {}) for name, body in schema["$defs"].items()}
    return {"SettingsFile": schema["properties"], **{name: keys for name, keys in found.items() if keys}}


TABLES: dict[str, str] = dict(TABLE.findall((ROOT / "docs" / "configuration.md").read_text("utf-8")))


def test_the_reference_has_a_table_for_every_policy() -> None:
    assert sorted(TABLES) == sorted(models())


@pytest.mark.parametrize("model", sorted(models()))
def test_the_reference_has_every_key_with_its_default(model: str) -> None:
    rows = {key: [cell.strip() for cell in re.split(r"(?<!\\)\|", rest)] for key, rest in ROW.findall(TABLES[model])}
    keys = models()[model]
    assert list(rows) == list(keys)
    for key, schema in keys.items():
        assert len(rows[key]) == 3, key
        if "default" in schema:
            default = schema["default"]
            assert rows[key][1] == f"`{str(default).lower() if isinstance(default, bool) else default}`", key


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.split(r"[^\w-]", requirement)[0] for requirement in project["dependencies"]}
    decision = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", decision, re.MULTILINE)) == needed
