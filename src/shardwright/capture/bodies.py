"""Loops, branches and blocks with their bodies replaced by normal ones.

A normal body may need arrays from outside, which its own constants were; they come in as further
operands, where the operator keeps what its body only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from shardwright.jax_bridge import (
    Atom,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    drop_dead_equations,
)


@final
@dataclass(frozen=True, kw_only=True)
class Body:
    """A jaxpr whose leading inputs are ``consts``, arrays that it needs from outside."""

    jaxpr: Jaxpr
    consts: tuple[Any, ...]


class Level(Protocol):
    """Where an equation stands: it knows normal bodies and brings arrays in from outside."""

    def body_of(self, jaxpr: Jaxpr | ClosedJaxpr) -> Body:
        """The normal form of a body."""

    def take(self, body: Body) -> list[Atom]:
        """Variables at this level for the arrays that a body needs from outside."""


def _rewrite_scan(level: Level, eqn: JaxprEqn) -> JaxprEqn:
    body = level.body_of(eqn.params["jaxpr"])
    count = eqn.params["num_consts"] + len(body.consts)
    params = eqn.params | {"jaxpr": ClosedJaxpr(body.jaxpr, ()), "num_consts": count}
    return eqn.replace(invars=[*level.take(body), *eqn.invars], params=params)


def _rewrite_while(level: Level, eqn: JaxprEqn) -> JaxprEqn:
    test = level.body_of(eqn.params["cond_jaxpr"])
    body = level.body_of(eqn.params["body_jaxpr"])
    split = eqn.params["cond_nconsts"]
    params = eqn.params | {
        "cond_jaxpr": ClosedJaxpr(drop_dead_equations(test.jaxpr), ()),
        "body_jaxpr": ClosedJaxpr(drop_dead_equations(body.jaxpr), ()),
        "cond_nconsts": split + len(test.consts),
        "body_nconsts": eqn.params["body_nconsts"] + len(body.consts),
    }
    first, rest = eqn.invars[:split], eqn.invars[split:]
    return eqn.replace(invars=[*level.take(test), *first, *level.take(body), *rest], params=params)


def _rewrite_cond(level: Level, eqn: JaxprEqn) -> JaxprEqn:
    branches = [level.body_of(branch) for branch in eqn.params["branches"]]
    taken = [atom for branch in branches for atom in level.take(branch)]
    padded = tuple([ClosedJaxpr(_pad(branches, k), ()) for k in range(len(branches))])
    return eqn.replace(
        invars=[eqn.invars[0], *taken, *eqn.invars[1:]], params=eqn.params | {"branches": padded}
    )


def _pad(branches: Sequence[Body], position: int) -> Jaxpr:
    """One branch, given inputs for every branch's constants, since all take the same inputs."""
    mine = branches[position].jaxpr
    if not any(branch.consts for branch in branches):
        return mine
    lead: list[Var] = []
    for other, branch in enumerate(branches):
        own = branch.jaxpr.invars[: len(branch.consts)]
        lead += own if other == position else [Var(v.aval) for v in own]
    rest = mine.invars[len(branches[position].consts) :]
    return mine.replace(invars=[*lead, *rest])


def _rewrite_block(level: Level, eqn: JaxprEqn) -> JaxprEqn:
    body = level.body_of(eqn.params["jaxpr"])
    params = eqn.params | {"jaxpr": body.jaxpr}
    return eqn.replace(invars=[*level.take(body), *eqn.invars], params=params)


REWRITES: dict[str, Callable[[Level, JaxprEqn], JaxprEqn]] = {
    "scan": _rewrite_scan,
    "while": _rewrite_while,
    "cond": _rewrite_cond,
    "remat2": _rewrite_block,
    "checkpoint": _rewrite_block,
}
"""By primitive, the equation with normal bodies."""
