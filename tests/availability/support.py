"""The example chain of the design, random chains, and a slow, plain sum to hold the fast one against."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from hypothesis import strategies as st

from availability.chain import AnyOf, Chain, KOf, Node, Part, Series, walk

LB = Part("load balancer", 0.9999)
REPLICAS = Part("replicas", 0.9995)
STORE = Part("session store", 0.9995)
MODEL = Part("model API", 0.999)
TOOL = Part("tool API", 0.999)
EXAMPLE = Chain(Series("turn", (LB, REPLICAS, STORE, MODEL, TOOL)))


def pair(part: Part, *, coverage: float = 1.0, beta: float = 0.0, switch_share: float = 0.0) -> AnyOf:
    copies = (Part(f"{part.name} 1", part.availability), Part(f"{part.name} 2", part.availability))
    return AnyOf(part.name, copies, coverage=coverage, beta=beta, switch_share=switch_share)


shares = st.floats(0.0, 1.0)


@st.composite
def chains(draw: st.DrawFn, *, plain: bool = False, most_leaves: int = 8) -> Chain:
    """Trees of up to three levels over a few leaves, any of which may stand in several places. `plain`: every group is
    perfect, nothing is called several times, and no answer is accepted degraded."""
    leaves = [
        Part(f"p{i}", draw(shares), calls=1.0 if plain else draw(st.sampled_from([0.4, 1.0, 2.0, 2.4])))
        for i in range(draw(st.integers(1, most_leaves)))
    ]
    names = (f"g{i}" for i in itertools.count())

    def node(depth: int) -> Node:
        kind = draw(st.sampled_from(["leaf", "series", "any", "k"] if depth else ["leaf"]))
        if kind == "leaf":
            return draw(st.sampled_from(leaves))
        parts = tuple(node(depth - 1) for _ in range(draw(st.integers(1, 3))))
        accepted = 0.0 if plain else draw(st.sampled_from([0.0, 0.3]))
        calls = 1.0 if plain else draw(st.sampled_from([0.5, 1.0]))
        name = next(names)
        if kind == "series":
            return Series(name, parts, accepted=accepted, calls=calls)
        if kind == "k":
            return KOf(name, parts, draw(st.integers(1, len(parts))), accepted=accepted, calls=calls)
        if plain:
            return AnyOf(name, parts)
        c, beta, switch = draw(st.tuples(shares, shares, shares))
        return AnyOf(name, parts, accepted=accepted, calls=calls, coverage=c, beta=beta, switch_share=switch)

    return Chain(node(3))


def by_brute_force(chain: Chain) -> float:
    """Availability as the sum over all up and down states of all parts, each state weighed by its probability."""
    leaves = {node.name: node for node in walk(chain.root) if isinstance(node, Part)}
    total = 0.0
    for states in itertools.product((True, False), repeat=len(leaves)):
        up = dict(zip(leaves, states, strict=True))
        weight = math.prod(_leaf(leaves[name]) if up[name] else 1.0 - _leaf(leaves[name]) for name in leaves)
        total += weight * _given(chain.root, up)
    return total


def _leaf(part: Part) -> float:
    failure = (1 - part.accepted) * (1 - part.availability * (1 - part.planned_min / 43_200))
    return float((1 - failure) ** int(part.calls) * (1 - (part.calls % 1) * failure))


def _given(node: Node, up: Mapping[str, bool]) -> float:
    """Probability that the node serves the turn when the leaves' states are known."""
    if isinstance(node, Part):
        return float(up[node.name])
    parts = [_given(part, up) for part in node.children]
    if isinstance(node, Series):
        value = math.prod(parts)
    elif isinstance(node, KOf):
        value = sum(
            math.prod(p if s else 1 - p for p, s in zip(parts, states, strict=True))
            for states in itertools.product((True, False), repeat=len(parts))
            if sum(states) >= node.k
        )
    else:
        assert isinstance(node, AnyOf)
        lost = 1 - parts[-1]
        for p in reversed(parts[:-1]):
            too = node.beta + (1 - node.beta) * lost
            lost = (1 - p) * (1 - node.coverage + node.coverage * (node.switch_share + (1 - node.switch_share) * too))
        value = 1 - lost
    assert node.calls <= 1
    return 1 - node.calls * (1 - node.accepted) * (1 - value)
