"""Normalisation: one flat jaxpr per level, with loops and remat kept and all mere calls gone.

Calls (jit, closed_call, custom_jvp_call, ...) are inlined by renaming variables. Bodies of scan,
while, cond and remat are normalised in place, and arrays that they closed over move up to the
outermost level, where they become constants of the whole step. Values are untouched: the result
computes bit for bit what the traced function computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from shardwright.capture.bodies import REWRITES, Body
from shardwright.capture.source import SourceLines, is_library_function
from shardwright.errors import CaptureError
from shardwright.jax_bridge import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    drop_dead_equations,
    touches_memory,
)

_CALL_BODIES = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
}
"""Primitives that only wrap a function, and the parameter that holds it."""


def normalise(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same function without calls, dead equations, or constants inside loops.

    Inputs and outputs stay as they are, in number and order. Time is linear in the equations
    after inlining; a body that occurs many times is normalised once.

    Raises:
        CaptureError: the function reads or writes a mutable reference.
    """
    body = _Bodies().normalise(closed.jaxpr, closed.consts)
    live = drop_dead_equations(body.jaxpr)
    used = {v for eqn in live.eqns for v in eqn.invars if isinstance(v, Var)}
    used.update(v for v in live.outvars if isinstance(v, Var))
    count = len(body.consts)
    kept = [(v, c) for v, c in zip(live.invars, body.consts, strict=False) if v in used]
    jaxpr = live.replace(
        constvars=[v for v, _ in kept],
        invars=live.invars[count:],
        debug_info=closed.jaxpr.debug_info,
    )
    return ClosedJaxpr(jaxpr, [c for _, c in kept])


@final
@dataclass(frozen=True, kw_only=True)
class _Bodies:
    """Bodies normalised so far, by identity; sources are kept so that no identity is reused."""

    done: dict[int, tuple[Any, Body]] = field(default_factory=dict)

    def of(self, jaxpr: Jaxpr | ClosedJaxpr) -> Body:
        """The normal form of a loop's, branch's or block's body."""
        known = self.done.get(id(jaxpr))
        if known is None:
            known = self.done[id(jaxpr)] = (jaxpr, self.normalise(*_opened(jaxpr)))
        return known[1]

    def normalise(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> Body:
        level = _Level(bodies=self)
        env: dict[Var, Atom] = {v: v for v in jaxpr.invars}
        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            env[variable] = level.const(const, variable.aval)
        level.inline(jaxpr, env, None, is_named=False)
        outputs = [level.read(v, env) for v in jaxpr.outvars]
        needed = [v for v, _ in level.consts.values()]
        flat = jaxpr.replace(
            constvars=[],
            invars=[*needed, *jaxpr.invars],
            outvars=outputs,
            eqns=level.equations,
            debug_info=jaxpr.debug_info.with_unknown_names(),
        )
        return Body(jaxpr=flat, consts=tuple(c for _, c in level.consts.values()))


@final
@dataclass(frozen=True, kw_only=True)
class _Level:
    """One jaxpr while it is written: its equations and the arrays that it needs from outside."""

    bodies: _Bodies
    equations: list[JaxprEqn] = field(default_factory=list)
    consts: dict[int, tuple[Var, Any]] = field(default_factory=dict)

    def const(self, value: Any, aval: Any) -> Var:
        """The variable that brings ``value`` in from the outermost level."""
        known = self.consts.get(id(value))
        if known is None:
            known = self.consts[id(value)] = (Var(aval), value)
        return known[0]

    def read(self, atom: Atom, env: dict[Var, Atom]) -> Atom:
        if isinstance(atom, Literal):
            return atom if _is_plain(atom) else self.const(atom.val, atom.aval)
        return env[atom]

    def inline(
        self, jaxpr: Jaxpr, env: dict[Var, Atom], caller: JaxprEqn | None, *, is_named: bool
    ) -> None:
        """Append the equations of ``jaxpr``, renamed through ``env``.

        Args:
            jaxpr: what to append.
            env: what stands for its inputs; grows by what stands for each result.
            caller: the call whose body this is; its scope goes before each scope here.
            is_named: the body is a library's own, so its lines say less than the caller's.
        """
        for eqn in jaxpr.eqns:
            if eqn.effects and touches_memory(eqn.effects):
                raise _mutable_reference(eqn)
            inputs = [self.read(v, env) for v in eqn.invars]
            source = _source(eqn, caller, is_named=is_named)
            parameter = _CALL_BODIES.get(eqn.primitive.name)
            if parameter is not None and parameter in eqn.params:
                self.enter(eqn.replace(invars=inputs, source_info=source), parameter, env)
                continue
            outputs = [_fresh(v, env) for v in eqn.outvars] if caller else eqn.outvars
            if not caller:
                env.update((v, v) for v in outputs)
            plain = eqn.replace(invars=inputs, outvars=outputs, source_info=source)
            rewrite = REWRITES.get(eqn.primitive.name)
            self.equations.append(rewrite(self, plain) if rewrite else plain)

    def enter(self, call: JaxprEqn, parameter: str, env: dict[Var, Atom]) -> None:
        """Append the body of a call whose inputs are renamed already."""
        inner, consts = _opened(call.params[parameter])
        inner_env = dict(zip(inner.invars, call.invars, strict=True))
        for variable, const in zip(inner.constvars, consts, strict=True):
            inner_env[variable] = self.const(const, variable.aval)
        self.inline(inner, inner_env, call, is_named=is_library_function(inner.debug_info))
        for outer, atom in zip(call.outvars, inner.outvars, strict=True):
            env[outer] = self.read(atom, inner_env)

    def body_of(self, jaxpr: Jaxpr | ClosedJaxpr) -> Body:
        """The normal form of a body."""
        return self.bodies.of(jaxpr)

    def take(self, body: Body) -> list[Atom]:
        """Variables of this level for the arrays that a body needs from outside."""
        return [
            self.const(value, variable.aval)
            for variable, value in zip(body.jaxpr.invars, body.consts, strict=False)
        ]


def _opened(jaxpr: Jaxpr | ClosedJaxpr) -> tuple[Jaxpr, Sequence[Any]]:
    """A jaxpr and the values of its constants; an open one has none."""
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, ClosedJaxpr) else (jaxpr, ())


def _fresh(variable: Var, env: dict[Var, Atom]) -> Var:
    if isinstance(variable, DropVar):
        return DropVar(variable.aval)
    env[variable] = new = Var(variable.aval)
    return new


def _is_plain(literal: Literal) -> bool:
    """Whether a literal is a number that a graph can hold as such."""
    aval: Any = literal.aval
    return aval.shape == () and aval.dtype.kind != "c"


def _source(eqn: JaxprEqn, caller: JaxprEqn | None, *, is_named: bool) -> Any:
    if caller is None:
        return eqn.source_info
    outer, inner = caller.source_info, eqn.source_info
    stack = inner.name_stack
    if len(outer.name_stack):
        stack = outer.name_stack + stack
    return inner.replace(
        name_stack=stack, traceback=outer.traceback if is_named else inner.traceback
    )


def _mutable_reference(eqn: JaxprEqn) -> CaptureError:
    return CaptureError(
        f"the step reads or writes a mutable reference ({eqn.primitive.name})",
        where=SourceLines().of(eqn.source_info.traceback),
        hint="pass the value in and return the new one",
    )
