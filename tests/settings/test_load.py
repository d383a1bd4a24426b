"""Files of any kind: settings or problems come out, nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.settings.load import LARGEST, load
from gateway.settings.problems import SettingsError
from tests.settings.writing import VALID, changed, load_bytes, load_text, problem, problems


def _refused(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    (found,) = caught.value.problems
    assert (found.file, found.line, found.column, found.path) == (str(path), 1, 1, "")
    assert str(found) == f"{path}:1:1: {found.message}"
    return found.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "cannot be read (No such file" in _refused(tmp_path / "none.yaml")
    assert "cannot be read (Is a directory" in _refused(tmp_path)
    assert "not one of a file" in _refused(Path("a\0b"))
    file = tmp_path / "settings.yaml"
    file.write_text("")
    assert "holds no settings" in _refused(file)
    file.write_text("# a comment\n")
    assert "holds no settings" in _refused(file)
    file.write_bytes(b"#" * (LARGEST + 1))
    assert "larger than" in _refused(file)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(VALID)
    file.chmod(0)
    assert "Permission denied" in _refused(file)


def test_bytes_that_are_not_utf8_are_found_by_line() -> None:
    with pytest.raises(SettingsError) as caught:
        load_bytes(b"version: 1\ngateway: \xff\n")
    assert (caught.value.problems[0].line, caught.value.problems[0].column) == (2, 10)


def test_a_byte_order_mark_and_windows_lines_are_fine() -> None:
    assert load_bytes(b"\xef\xbb\xbf" + VALID.replace("\n", "\r\n").encode()).routes[0].name == "support"


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        ("[a]", "keys and values", (1, 1)),
        ("text", "keys and values", (1, 1)),
        (VALID + "---\na: b\n", "second document", (19, 1)),
        ("version: 1\n\tx: 2\n", "can start", (2, 1)),
        ("version: 1\n x: 2\n", "indentation", (2, 3)),
        ("version: [1\n", "bracket", (2, 1)),
        ("version: 'a\n", "never closed", (2, 1)),
        ("a: b\x07", "control character", (1, 5)),
        ('a: "\\UFFFFFFFF"', "out of range", (1, 7)),
        ('a: "\\q"', "escape", (1, 6)),
        ("%YAML 9.9\n---\na: b\n", "not YAML", (1, 1)),
        ("a: " + "[" * 100_000, "levels deep", (1, 24)),
        ("a: " + "{a: " * 5_000, "levels deep", (1, 84)),
        ("\n".join(" " * i + "a:" for i in range(900)), "levels deep", (22, 22)),
    ],
)
def test_what_is_not_yaml_is_found_by_line_and_ends_there(text: str, words: str, place: tuple[int, int]) -> None:
    start = time.monotonic()
    found = problem(text)
    assert words in found.message
    assert (found.line, found.column) == place
    assert time.monotonic() - start < 5


BOMB = "a: &a [x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (changed(("provider: p", "provider: !!python/object:os.system p")), "tags (!)"),
        (changed(("[gpt-eu, gpt-us]", "!!set {gpt-eu, gpt-us}")), "tags (!)"),
        (changed(("provider: p", "provider: &a p"), ("model: m\n  gpt-us", "model: *a\n  gpt-us")), "anchors"),
        (changed(("gpt-eu:\n", "gpt-eu: &a\n    self: *a\n")), "anchors"),
        (changed(("provider: p", "<<: {provider: p}\n    provider: p")), "merge keys"),
        (changed(("provider: p", "? [a]\n    : b\n    provider: p")), "a list stands here"),
        (changed(("provider: p", "? \n    : b\n    provider: p")), "nothing stands here"),
        (changed(("provider: p", '"\\ud800": b\n    provider: p')), "half a character"),
        (changed(("model: m", 'model: "\\ud800"')), "half a character"),
        (BOMB, "anchors"),
        (changed(("[gpt-eu, gpt-us]", "\n    - gpt-eu\n    -\n")), "nothing is written here"),
        (changed(("model: m", f"model: m\n    request_limit: {'9' * 400}GB")), "hundreds of digits"),
        (changed(("model: m", f"model: m\n    context_window: {'9' * 5000}")), "thousands of digits"),
    ],
)
def test_what_yaml_can_do_and_settings_do_not_need_is_refused(text: str, words: str) -> None:
    assert any(words in each.message for each in problems(text))


@given(text=st.text(st.characters(codec="utf-8")))
def test_any_text_gives_settings_or_problems(text: str) -> None:
    _settings_or_problems(text)


@given(text=st.text(st.sampled_from(list("ab:- \n\t[]{},&*!|>'\"%@`#?$\\~<=0.\u2028\x85")), max_size=60))
def test_any_yaml_like_text_gives_settings_or_problems(text: str) -> None:
    _settings_or_problems(text)


_FRAGMENTS = [
    "a: b\n",
    "  ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "*a",
    "&a ",
    "!t ",
    '"\\x',
    "${A",
    "}",
    "$$",
    ": ",
    "|\n",
    "?",
    "<<",
]


@given(data=st.data())
def test_the_valid_file_with_anything_put_in_gives_settings_or_problems(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(VALID)))
    cut = data.draw(st.integers(0, 20))
    piece = data.draw(st.one_of(st.sampled_from(_FRAGMENTS), st.text(st.characters(codec="utf-8"), max_size=10)))
    _settings_or_problems(VALID[:at] + piece + VALID[at + cut :])


@given(data=st.binary())
def test_any_bytes_give_settings_or_problems(data: bytes) -> None:
    try:
        load_bytes(data)
    except SettingsError as error:
        _well_formed(error)


def _settings_or_problems(text: str) -> None:
    try:
        load_text(text)
    except SettingsError as error:
        _well_formed(error)


def _well_formed(error: SettingsError) -> None:
    assert error.problems
    for each in error.problems:
        assert each.line >= 1
        assert each.column >= 1
        str(each).encode()
        assert str(each).isprintable()
