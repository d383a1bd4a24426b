"""The sessions API over a whole gateway with its SQLite file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Answer, Lab, config, lab

BASE = "/v1/apps/shop/users/ann/sessions"


def settings(tmp_path: Path, **parts: Any) -> dict[str, Any]:
    return config({"a": "http://127.0.0.1:9/v1"}, sessions={"path": str(tmp_path / "sessions.db")}, **parts)


@pytest.fixture
async def g(tmp_path: Path) -> AsyncIterator[Lab]:
    async with lab(settings(tmp_path)) as one:
        yield one


async def post(g: Lab, path: str, value: object = None, **headers: str) -> Answer:
    body = b"" if value is None else json.dumps(value).encode()
    return await g.post(path, body, headers={name.replace("_", "-"): text for name, text in headers.items()})


def events(*ids: str, **fields: Any) -> dict[str, Any]:
    return {"events": [{"event_id": one, "body": {"text": one}} for one in ids], **fields}


async def test_a_session_from_its_creation_to_its_end(g: Lab) -> None:
    made = await post(g, BASE, {"id": "s1", "state": {"city": "Bonn", "user:name": "Ann"}})
    assert made.status == 201
    assert made.json["id"] == "s1"
    assert made.headers["x-stanchion-epoch"] == "1"
    done = await post(g, f"{BASE}/s1/events", events("e1", "e2", state={"city": "Köln"}), If_Match='"0"')
    assert done.status == 201
    assert (done.json["version"], done.json["seq"], done.json["position"]) == (1, 2, "1-2")
    assert done.headers["etag"] == '"1"'
    found = (await g.get(f"{BASE}/s1")).json
    assert [one["event_id"] for one in found["events"]] == ["e1", "e2"]
    assert found["events"][0]["body"] == {"text": "e1"}
    assert found["state"] == {"city": "Köln", "user:name": "Ann"}
    assert found["version"] == 1
    listed = (await g.get("/v1/apps/shop/sessions?user_id=ann")).json["sessions"]
    assert [one["id"] for one in listed] == ["s1"]
    assert (await g.get("/v1/apps/shop/users/ann/state")).json["state"] == {"user:name": "Ann"}
    async with g.session.delete(g.url + f"{BASE}/s1") as response:
        assert (response.status, await response.json()) == (200, {"existed": True})
    gone = await g.get(f"{BASE}/s1")
    assert gone.status == 404
    assert gone.error["code"] == "session_gone"


async def test_an_id_is_made_that_says_its_shard_and_a_repeat_finds_the_same(g: Lab) -> None:
    first = await post(g, BASE, {}, Idempotency_Key="k1")
    again = await post(g, BASE, {}, Idempotency_Key="k1")
    other = await post(g, BASE)
    assert first.json["id"] == again.json["id"] != other.json["id"]
    assert again.json["duplicate"] is True
    assert first.json["id"].startswith("local.")
    assert (await g.get(f"{BASE}/{first.json['id']}")).status == 200


async def test_a_taken_name_is_a_conflict(g: Lab) -> None:
    assert (await post(g, BASE, {"id": "s1"})).status == 201
    again = await post(g, BASE, {"id": "s1"})
    assert (again.status, again.error["code"]) == (409, "already_exists")


async def test_f03_of_two_writers_one_commits_and_the_other_is_told_the_version(g: Lab) -> None:
    await post(g, BASE, {"id": "s1"})
    four = [events(*(f"{who}{n}" for n in range(4)), expected_version=0) for who in "ab"]
    answers = await asyncio.gather(*(post(g, f"{BASE}/s1/events", one) for one in four))
    assert sorted(one.status for one in answers) == [201, 412]
    refused = next(one for one in answers if one.status == 412)
    assert refused.error["code"] == "stale_session"
    assert refused.headers["etag"] == '"1"'
    ids = [one["event_id"] for one in (await g.get(f"{BASE}/s1")).json["events"]]
    assert ids in (["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"])


async def test_a_repeated_append_is_stored_once_whatever_version_it_expects(g: Lab) -> None:
    await post(g, BASE, {"id": "s1"})
    one = {"events": [{"body": 1}]}
    first = await post(g, f"{BASE}/s1/events", one, Idempotency_Key="e1", If_Match='"0"')
    await post(g, f"{BASE}/s1/events", events("e2"))
    again = await post(g, f"{BASE}/s1/events", one, Idempotency_Key="e1", If_Match='"0"')
    assert (again.status, again.json["duplicate"]) == (201, True)
    assert again.json["position"] == first.json["position"]
    looked = await g.get(f"{BASE}/s1/events/e1")
    assert looked.json["state"] == "committed"
    assert looked.json["position"] == first.json["position"]
    absent = await g.get(f"{BASE}/s1/events/nothing")
    assert (absent.status, absent.json["state"]) == (404, "absent")


async def test_events_are_read_by_position_by_number_and_by_time(g: Lab) -> None:
    await post(g, BASE, {"id": "s1"})
    for n in range(5):
        await post(g, f"{BASE}/s1/events", events(f"e{n}"))

    async def ids(query: str) -> tuple[list[str], bool]:
        found = (await g.get(f"{BASE}/s1?{query}")).json
        return [one["event_id"] for one in found["events"]], found["more"]

    assert await ids("limit=2") == (["e0", "e1"], True)
    assert await ids("after=1-2&limit=2") == (["e2", "e3"], True)
    assert await ids("after=1-4") == (["e4"], False)
    assert await ids("num_recent_events=2") == (["e3", "e4"], True)
    assert await ids("num_recent_events=0") == ([], True)
    everything = (await g.get(f"{BASE}/s1")).json["events"]
    assert await ids(f"after_timestamp={everything[-1]['timestamp'] + 1}") == ([], False)
    assert (await ids("after_timestamp=0"))[0] == ["e0", "e1", "e2", "e3", "e4"]


async def test_names_are_percent_decoded_and_never_mixed_up(g: Lab) -> None:
    await post(g, "/v1/apps/a%2Fb/users/%C3%A4%20%3F/sessions", {"id": "x/y"})
    found = await g.get("/v1/apps/a%2Fb/users/%C3%A4%20%3F/sessions/x%2Fy")
    assert found.status == 200
    assert (found.json["app"], found.json["user"], found.json["id"]) == ("a/b", "ä ?", "x/y")
    assert (await g.get("/v1/apps/a/users/%C3%A4%20%3F/sessions/x%2Fy")).status == 404


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({"events": []}, "events"),
        ({"events": {}}, "events"),
        ({"events": [{"event_id": "a"}]}, "events[0].body"),
        ({"events": [{"body": 1}, {"body": 2}]}, "events[0].event_id"),
        ({"events": [{"event_id": 1, "body": 1}]}, "events[0].event_id"),
        ({"events": [{"event_id": "a", "body": 1, "x": 1}]}, "events[0].x"),
        ({"events": [{"event_id": "a", "body": 1}], "state": []}, "state"),
        ({"events": [{"event_id": "a", "body": 1}], "expected_version": -1}, "expected_version"),
        ({"events": [{"event_id": "a", "body": 1}], "expected_version": True}, "expected_version"),
        ({"events": [{"event_id": "a", "body": 1}], "nonsense": 1}, "nonsense"),
        ([], "body"),
    ],
)
async def test_bad_bodies_are_refused_and_the_part_is_named(g: Lab, value: object, part: str) -> None:
    await post(g, BASE, {"id": "s1"})
    answer = await post(g, f"{BASE}/s1/events", value)
    assert answer.status == 400
    assert answer.error["param"] == part
    assert (await g.get(f"{BASE}/s1")).json["events"] == []


@pytest.mark.parametrize("body", [b"{", b'{"events": [{"event_id": "a", "body": NaN}]}', b'{"id": "\\ud800"}', b"\xff"])
async def test_what_is_no_json_is_refused(g: Lab, body: bytes) -> None:
    await post(g, BASE, {"id": "s1"})
    assert (await g.post(f"{BASE}/s1/events", body)).status == 400


async def test_more_refusals(g: Lab) -> None:
    await post(g, BASE, {"id": "s1"})
    assert (await post(g, f"{BASE}/s1/events", events("a"), If_Match="x")).status == 400
    assert (await post(g, f"{BASE}/s1/events", events("a", expected_version=1), If_Match='"0"')).status == 400
    assert (await post(g, f"{BASE}/s1/events", events("a", "a"))).status == 400
    partial = {"events": [{"event_id": "p", "body": 1, "partial": True}]}
    assert (await post(g, f"{BASE}/s1/events", partial)).status == 400
    assert (await post(g, f"{BASE}/none/events", events("a"))).error["code"] == "session_not_found"
    assert (await g.get(f"{BASE}/s1?limit=x")).status == 400
    assert (await g.get(f"{BASE}/s1?nonsense=1")).status == 400
    assert (await g.get(f"{BASE}/s1?after=7")).status == 400
    assert (await post(g, BASE, {"id": "x" * 300})).status == 413
    assert (await post(g, BASE, {"id": ""})).status == 400
    unknown = await g.get(f"{BASE}/other.01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert (unknown.status, unknown.error["code"]) == (404, "shard_not_found")


async def test_a_limit_is_told_and_nothing_is_stored(tmp_path: Path) -> None:
    values = settings(tmp_path)
    values["sessions"]["limits"] = {"events": "2", "event": "1KB"}
    async with lab(values) as g:
        await post(g, BASE, {"id": "s1"})
        assert (await post(g, f"{BASE}/s1/events", events("a", "b"))).status == 201
        full = await post(g, f"{BASE}/s1/events", events("c"))
        assert (full.status, full.error["code"]) == (413, "session_limit")
        large = await post(g, f"{BASE}/s1/events", {"events": [{"event_id": "d", "body": "x" * 2000}]})
        assert large.status == 413
        assert len((await g.get(f"{BASE}/s1")).json["events"]) == 2


async def test_callers_use_the_sessions_of_their_apps_only(tmp_path: Path) -> None:
    callers = [{"name": "a", "key": "ka", "apps": ["shop"]}, {"name": "b", "key": "kb"}]
    async with lab(settings(tmp_path, callers=callers)) as g:
        assert (await post(g, BASE, {"id": "s1"})).status == 401
        assert (await post(g, BASE, {"id": "s1"}, Authorization="Bearer ka")).status == 201
        other = await post(g, "/v1/apps/bank/users/ann/sessions", {"id": "s1"}, Authorization="Bearer ka")
        assert (other.status, other.error["param"]) == (403, "app")
        assert (await post(g, "/v1/apps/bank/users/ann/sessions", {"id": "s"}, Authorization="Bearer kb")).status == 201


async def test_each_request_is_a_line_in_the_log_and_a_metric_without_its_content(g: Lab) -> None:
    await post(g, BASE, {"id": "s1", "state": {"secret": "hush"}})
    answer = await post(g, f"{BASE}/s1/events", events("a"), If_Match='"9"')
    lines = [line for line in g.log if line["event"] == "session"]
    assert [(line["op"], line["status"]) for line in lines] == [("create", 201), ("append", 412)]
    assert lines[1]["request_id"] == answer.headers["x-stanchion-request-id"]
    assert "hush" not in g.out.getvalue()
    assert await g.metric("stanchion_session_requests_total", op="append", status="412") == 1


async def test_the_file_is_made_when_it_is_needed_and_sessions_outlive_the_gateway(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    async with lab(settings(tmp_path)) as g:
        assert (await g.get("/readyz?sessions")).json["sessions"] == {"local": "open"}
        assert not path.exists()
        await post(g, BASE, {"id": "s1"})
        await post(g, f"{BASE}/s1/events", events("e1"))
    assert path.exists()
    async with lab(settings(tmp_path)) as g:
        assert [one["event_id"] for one in (await g.get(f"{BASE}/s1")).json["events"]] == ["e1"]


async def test_a_file_that_cannot_be_used_is_503_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").write_bytes(b"no database at all" * 100)
    async with lab(settings(tmp_path)) as g:
        answer = await post(g, BASE, {"id": "s1"})
        assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        assert "a file of their own" in answer.error["message"]
        assert "retry-after" in answer.headers
        assert (await g.get("/readyz")).status == 200


async def test_a_file_of_another_place_goes_on_in_a_new_epoch(tmp_path: Path) -> None:
    async with lab(settings(tmp_path)) as g:
        await post(g, BASE, {"id": "s1"})
    path = tmp_path / "sessions.db"
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    copy.replace(path)
    async with lab(settings(tmp_path)) as g:
        answer = await post(g, f"{BASE}/s1/events", events("e1"))
        assert (answer.status, answer.json["epoch"]) == (201, 2)
        assert any("copied or moved" in line.get("message", "") for line in g.log)


async def test_what_of_sessions_cannot_change_is_refused_at_a_reload(tmp_path: Path) -> None:
    values = settings(tmp_path)
    async with lab(values) as g:
        changed = {**values, "sessions": {"path": str(tmp_path / "other.db")}}
        answer = await g.reload(changed)
        assert answer.status == 422
        assert "cannot change while the gateway runs" in answer.json["problems"][0]["message"]
        kept = {**values, "sessions": {**values["sessions"], "retention": "1h"}}
        assert (await g.reload(kept)).status == 200
        assert g.service.settings.sessions.retention_s == 3600


async def test_a_gateway_without_regions_says_that_nothing_can_be_promoted(g: Lab) -> None:
    assert (await g.get("/admin/v1/regions", admin=True)).json["shards"] == []
    async with g.session.post(g.admin_url + "/admin/v1/shards/local/promote", data=b'{"to": "x"}') as response:
        assert response.status == 404
        assert "nothing to promote" in (await response.json())["error"]["message"]
