"""Steps of the model as values, so that a search can put them in any order."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.regions.protocol.model import Broken, Faults, World

Step = tuple[str, float]
"""A step's name, and its number: seconds, a region, or events that are kept."""


def steps(*, clocks: bool, restarts: bool) -> st.SearchStrategy[list[Step]]:
    """`clocks`: those of stores may be set."""
    one: list[st.SearchStrategy[Step]] = [
        st.tuples(st.just("tick"), st.sampled_from((0.5, 2.0, 4.0, 7.0))),
        st.tuples(st.sampled_from(("renew", "renew_read", "renew_write", "renew_grant", "replicate")), st.just(0.0)),
        st.tuples(
            st.sampled_from(("write", "ask", "again", "deliver", "read", "read_begin")), st.sampled_from((0.0, 1.0))
        ),
        st.tuples(st.sampled_from(("promote", "take_over", "usurp", "serve")), st.sampled_from((0.0, 1.0))),
        st.tuples(st.just("open"), st.just(0.0)),
    ]
    if clocks:
        one.append(st.tuples(st.just("set_back"), st.sampled_from((2.0, 4.0, 20.0))))
    if restarts:
        one.append(st.tuples(st.just("restart"), st.sampled_from((0.0, 1.0))))
    return st.lists(st.one_of(one), min_size=6, max_size=24)


def play(faults: Faults, taken: Sequence[Step]) -> World:
    """Raises Broken."""
    world = World(faults)
    for name, number in taken:
        _do(world, name, number)
        world.check()
    return world


def breaks(faults: Faults, taken: Sequence[Step]) -> bool:
    try:
        play(faults, taken)
    except Broken:
        return True
    return False


def _serve(world: World, gateway: int) -> None:
    """A gateway learns who is the primary, and that its lease is renewed; it writes, and is answered."""
    for _ in range(2):
        world.read_begin(gateway)
        world.read_end(gateway)
        _do(world, "renew", 0.0)
    world.read_begin(gateway)
    world.read_end(gateway)
    _do(world, "ask", float(gateway))


def _do(world: World, name: str, number: float) -> None:
    which = int(number)
    match name:
        case "tick":
            world.tick(number)
        case "renew":
            world.renew_read()
            world.renew_write()
            world.renew_grant()
        case "write":
            world.write(which)
        case "ask":
            world.write(which)
            world.deliver(which)
        case "again":
            world.write(which, again=True)
        case "deliver":
            world.deliver(which)
        case "read_begin":
            world.read_begin(which)
        case "read":
            if world.gateways[which].reading is None:
                world.read_begin(which)
            world.read_end(which)
        case "promote":
            world.promote(which)
        case "take_over":
            world.promote(which)
            world.tick(max(0.0, world.wait_left()))
            world.open()
            _serve(world, which)
        case "usurp":
            world.promote(which)
            world.open()
            _serve(world, which)
        case "serve":
            _serve(world, which)
        case "set_back":
            world.set_clock(0, -number)
        case "restart":
            world.restart(0, which)
        case _:
            getattr(world, name)()
