"""The shards of a gateway, as lines of `status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.console.terminal import Terminal, printable


def draw_shards(answer: Mapping[str, Any], terminal: Terminal) -> bool:
    """Print them; whether every shard is open."""
    fine = True
    if answer.get("problem"):
        terminal.line(f"sessions: {printable(str(answer['problem']))}", style="red")
        fine = False
    for shard in answer["shards"]:
        fine = fine and bool(shard.get("open"))
        for line in lines_of(shard):
            terminal.line(line, style=None if shard.get("open") else "red")
    return fine


def lines_of(shard: Mapping[str, Any]) -> list[str]:
    name = printable(str(shard.get("name")))
    if "epoch" not in shard:
        return [f"shard {name}: {printable(str(shard.get('closed_because')))}"]
    state = "open" if shard["open"] else f"takes no writes: {printable(str(shard['closed_because']))}"
    lines = [
        f"shard {name}: epoch {shard['epoch']} in {printable(str(shard['holder']))}, {shard['mode']}, {state}"
        + (", writes may be missing until a loss is exported" if shard.get("possible_loss") else "")
    ]
    for region, node in shard["nodes"].items():
        if node.get("error"):
            lines.append(f"  {printable(region)}: {printable(str(node['error']))}")
            continue
        lag = "" if node["role"] == "primary" else f", {node['lag_turns']} writes and {node['lag_s']:.1f} s behind"
        link = "" if node["link_up"] else ", does not follow now"
        lines.append(f"  {printable(region)}: {node['role']} at {node['gseq']}{lag}{link}")
    decision = shard["decision"]
    if decision["action"] not in ("nothing", "renew"):
        lines.append(f"  {decision['action']}: {printable(decision['why'])}")
    if shard["promotions"]:
        lines.append(f"  last: {_promotion(shard['promotions'][0])}")
    return lines


def _promotion(entry: Mapping[str, Any]) -> str:
    took = sum(entry["steps_s"].values())
    lost = entry.get("lost")
    if lost:
        loss = f"{lost['events']} events in {lost['turns']} turns lost: {lost['file']}"
    elif entry["kind"] == "failover":
        loss = "loss not counted yet" if entry["loss_bound"] is None else f"at most {entry['loss_bound']} writes lost"
    else:
        loss = "nothing lost"
    return printable(
        f"{entry['kind']} to {entry['to']}, epoch {entry['epoch']}, in {took:.1f} s, {loss} ({entry['by']}: {entry['reason']})"
    )
