"""The files behind the settings: which changes the watch takes for one, and certificates that change under traffic."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from gateway import reload as reload_module
from gateway.settings.load import load
from gateway.watch import POLL_S
from tests.fakes.clock import ManualClock, settle
from tests.fakes.upstream import Upstream
from tests.gateway.wire import Wire, chat_request, until
from tests.lab import Json, Lab, config, lab, write
from tests.settings.certificates import CERTIFICATE, ENCRYPTED_KEY, KEY, OTHER_CERTIFICATE, OTHER_KEY


def deadline(seconds: int, **gateway: object) -> Json:
    made = config({"p": "http://127.0.0.1:9/v1"}, defaults={"deadline": f"{seconds}s"})
    made["gateway"].update(gateway)
    return made


BESIDE = 1
"""What else waits in a gateway that nobody asks anything: the end of old sessions."""


@asynccontextmanager
async def watched(values: Json) -> AsyncIterator[tuple[Lab, ManualClock]]:
    clock = ManualClock()
    async with lab(values, clock) as g:
        g.server.watch()
        yield g, clock


async def look(g: Lab, clock: ManualClock, times: int = 1) -> None:
    """Let the watch look, and wait for the reload that may have come of it."""
    for _ in range(times):
        await clock.run(POLL_S)
        await until(lambda: clock.pending > BESIDE)  # the files are read in a thread; then the watch sleeps again
        await asyncio.gather(*g.server.reloader._tasks)
        await settle()


def now(g: Lab) -> float:
    return g.service.settings.routes[0].deadline_s


def reloads(g: Lab) -> list[tuple[str, bool]]:
    return [(line["trigger"], line["applied"]) for line in g.log if line["event"] == "reload"]


async def test_a_change_is_read_when_it_has_been_the_same_for_one_look() -> None:
    async with watched(deadline(1)) as (g, clock):
        await look(g, clock, 3)
        write(g.path, deadline(2))
        await look(g, clock)
        assert now(g) == 1
        write(g.path, deadline(3))
        await look(g, clock)
        assert now(g) == 1, "it is being written still"
        await look(g, clock)
        assert now(g) == 3
        await look(g, clock, 3)
        assert reloads(g) == [("file", True)]


async def test_the_same_content_is_no_change() -> None:
    async with watched(deadline(1)) as (g, clock):
        text = g.path.read_bytes()
        g.path.unlink()
        g.path.write_bytes(text)
        os.utime(g.path, (1, 1))
        await look(g, clock, 3)
        write(g.path, deadline(2))
        await look(g, clock)
        write(g.path, deadline(1))
        await look(g, clock, 3)
        assert reloads(g) == []


async def test_a_file_that_is_missing_is_no_change_and_its_return_is() -> None:
    async with watched(deadline(1)) as (g, clock):
        g.path.unlink()
        await look(g, clock, 5)
        assert reloads(g) == []
        write(g.path, deadline(2))
        await look(g, clock, 2)
        assert now(g) == 2


async def test_an_editor_that_puts_a_new_file_in_its_place() -> None:
    async with watched(deadline(1)) as (g, clock):
        new = g.path.with_suffix(".new")
        write(new, deadline(2))
        new.replace(g.path)
        await look(g, clock, 2)
        assert now(g) == 2


async def test_symbolic_links_that_are_turned_as_kubernetes_does(tmp_path: Path) -> None:
    async with watched(deadline(1)) as (g, clock):
        for number in (1, 2):
            folder = tmp_path / f"..{number}"
            folder.mkdir()
            write(folder / "stanchion.yaml", deadline(number))
        data = tmp_path / "..data"
        data.symlink_to("..1")
        g.path.unlink()
        g.path.symlink_to(data / "stanchion.yaml")
        await look(g, clock, 2)
        assert reloads(g) == []
        (tmp_path / "..next").symlink_to("..2")
        (tmp_path / "..next").rename(data)
        await look(g, clock, 2)
        assert now(g) == 2


async def test_a_refused_file_is_read_once_and_again_when_it_changes() -> None:
    async with watched(deadline(1)) as (g, clock):
        write(g.path, {**deadline(2), "nonsense": "1"})
        await look(g, clock, 10)
        assert reloads(g) == [("file", False)]
        write(g.path, deadline(2))
        await look(g, clock, 2)
        assert (now(g), reloads(g)) == (2, [("file", False), ("file", True)])
        write(g.path, {**deadline(3), "nonsense": "1"})
        assert (await g.reload()).status == 422
        await look(g, clock, 5)
        assert reloads(g)[2:] == [("admin", False)], "it has been read already"


async def test_what_another_trigger_has_read_is_no_change() -> None:
    async with watched(deadline(1)) as (g, clock):
        assert (await g.reload(deadline(2))).status == 200
        await look(g, clock, 5)
        assert reloads(g) == [("admin", True)]


async def test_a_change_while_the_file_is_being_read_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def then_changed(*arguments: object) -> object:
        loaded = load(*arguments)  # type: ignore[arg-type]
        monkeypatch.undo()
        write(g.path, deadline(3))
        return loaded

    async with watched(deadline(1)) as (g, clock):
        monkeypatch.setattr(reload_module, "load", then_changed)
        await g.reload(deadline(2))
        assert now(g) == 2
        await look(g, clock, 2)
        assert now(g) == 3


async def test_it_can_be_turned_off_and_on() -> None:
    async with watched(deadline(1, watch="false")) as (g, clock):
        write(g.path, deadline(2, watch="false"))
        await look(g, clock, 5)
        assert now(g) == 1
        assert (await g.reload(deadline(3))).status == 200
        write(g.path, deadline(4))
        await look(g, clock, 2)
        assert now(g) == 4


async def test_nothing_is_read_any_more_while_draining() -> None:
    async with watched(deadline(1)) as (g, clock):
        g.service.draining = True
        write(g.path, deadline(2))
        await look(g, clock, 5)
        assert reloads(g) == []


async def test_a_pipe_is_not_opened() -> None:
    async with watched(deadline(1)) as (g, clock):
        g.path.unlink()
        os.mkfifo(g.path)
        await look(g, clock, 3)
        assert reloads(g) == []
        answered = await g.reload()
        assert answered.status == 422
        assert "pipe" in answered.json["problems"][0]["message"]


def with_tls(p: Upstream, folder: Path, **tls: str) -> Json:
    files = {"cert": str(folder / "cert.pem"), "key": str(folder / "key.pem"), **tls}
    values = config({"p": p})
    values["gateway"]["tls"] = files
    return values


def put(folder: Path, certificate: str | None = None, key: str | None = None) -> None:
    if certificate is not None:
        (folder / "cert.pem").write_text(certificate)
    if key is not None:
        (folder / "key.pem").write_text(key)


@asynccontextmanager
async def secure(g: Lab, name: str = "localhost") -> AsyncIterator[tuple[Wire, bytes]]:
    """A connection, and the certificate that it was greeted with."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(*g.server.listen, ssl=context, server_hostname=name)
    one = Wire(reader, writer)
    try:
        yield one, writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        await one.close()


async def greeted(g: Lab, name: str = "localhost") -> bytes:
    async with secure(g, name) as (w, certificate):
        w.send(chat_request())
        assert (await w.answer()).status == 200
        return certificate


OLD, NEW = ssl.PEM_cert_to_DER_cert(CERTIFICATE), ssl.PEM_cert_to_DER_cert(OTHER_CERTIFICATE)


async def test_new_handshakes_get_the_new_certificate_and_old_connections_go_on(tmp_path: Path) -> None:
    put(tmp_path, CERTIFICATE, KEY)
    async with Upstream("p") as p, lab(with_tls(p, tmp_path)) as g:
        async with secure(g) as (w, certificate):
            assert certificate == OLD
            put(tmp_path, OTHER_CERTIFICATE, OTHER_KEY)
            assert await greeted(g) == OLD
            assert (await g.reload()).status == 200
            for name in ("localhost", "127.0.0.1", ""):  # an address is not sent as a name
                assert await greeted(g, name) == NEW
            w.send(chat_request())
            assert (await w.answer()).status == 200
        other = tmp_path / "other"
        other.mkdir()
        put(other, CERTIFICATE, KEY)
        assert (await g.reload(with_tls(p, other))).status == 200
        assert await greeted(g) == OLD, "other paths are followed too"


@pytest.mark.parametrize(
    ("certificate", "key"),
    [(OTHER_CERTIFICATE, None), (None, OTHER_KEY), ("", None), (None, ENCRYPTED_KEY), ("nonsense", "nonsense")],
    ids=["half renewed", "the other half", "empty", "passphrase", "nonsense"],
)
async def test_a_broken_certificate_is_refused_and_the_old_one_serves(
    certificate: str | None, key: str | None, tmp_path: Path
) -> None:
    put(tmp_path, CERTIFICATE, KEY)
    async with Upstream("p") as p, lab(with_tls(p, tmp_path)) as g:
        put(tmp_path, certificate, key)
        answered = await g.reload()
        assert answered.status == 422
        assert [problem["path"] for problem in answered.json["problems"]] == ["gateway.tls"]
        assert await greeted(g) == OLD
        put(tmp_path, OTHER_CERTIFICATE, OTHER_KEY)
        assert (await g.reload()).status == 200
        assert await greeted(g) == NEW


async def test_one_that_breaks_between_check_and_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, CERTIFICATE, KEY)
    async with Upstream("p") as p, lab(with_tls(p, tmp_path)) as g:
        prepare = g.server._prepare

        def late(settings: object) -> object:
            put(tmp_path, OTHER_CERTIFICATE)
            return prepare(g.service.settings)

        monkeypatch.setattr(g.server.reloader, "_prepare", late)
        before = g.service.live
        answered = await g.reload({**with_tls(p, tmp_path), "defaults": {"deadline": "9s"}})
        assert [problem["path"] for problem in answered.json["problems"]] == ["gateway.tls"]
        assert g.service.live is before
        assert await greeted(g) == OLD


async def test_a_renewed_certificate_is_seen_by_the_watch(tmp_path: Path) -> None:
    put(tmp_path, CERTIFICATE, KEY)
    async with Upstream("p") as p, watched(with_tls(p, tmp_path)) as (g, clock):
        version = g.service.settings.version
        put(tmp_path, OTHER_CERTIFICATE)
        await look(g, clock, 4)
        assert reloads(g) == [("file", False)], "half of it has come: the old one goes on"
        assert await greeted(g) == OLD
        put(tmp_path, key=OTHER_KEY)
        await look(g, clock, 2)
        assert reloads(g) == [("file", False), ("file", True)]
        assert await greeted(g) == NEW
        assert g.service.settings.version == version, "the settings are the same"
        (tmp_path / "key.pem").unlink()
        await look(g, clock, 4)
        assert len(reloads(g)) == 2


async def test_other_certificates_to_believe_providers_by_make_other_connections(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_text(CERTIFICATE)
    async with Upstream("p") as p, watched(config({"p": p}, provider_p={"ca_file": str(authorities)})) as (g, clock):
        before = g.service.engine.providers["p"].transport
        authorities.write_text(OTHER_CERTIFICATE)
        await look(g, clock, 2)
        assert reloads(g) == [("file", True)]
        assert g.service.engine.providers["p"].transport is not before
        authorities.write_text("nonsense")
        await look(g, clock, 4)
        assert reloads(g) == [("file", True), ("file", False)]


@pytest.mark.parametrize("had", [True, False])
async def test_tls_itself_neither_comes_nor_goes(had: bool, tmp_path: Path) -> None:
    put(tmp_path, CERTIFICATE, KEY)
    async with Upstream("p") as p:
        plain, secured = config({"p": p}), with_tls(p, tmp_path)
        async with lab(secured if had else plain) as g:
            (problem,) = (await g.reload(plain if had else secured)).json["problems"]
            assert problem["path"] == "gateway.tls"
            assert "restart" in problem["message"]
            line = yaml.safe_dump(plain if had else secured, sort_keys=False).splitlines()[problem["line"] - 1]
            assert ("gateway" if had else "tls") in line
            await until(lambda: not g.service.in_flight)
