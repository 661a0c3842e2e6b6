"""A plan's decisions written into a jaxpr as sharding constraints, loop bodies included.

A constraint on a result alone does not fix how XLA runs an operator: it may gather the weight to
get there. So every decided operand is held *at its use*, by a constraint of its own, and every
decided result at its definition; XLA then has one way left. Where a reshard takes several steps,
each of them is a constraint, since XLA gathers everything when it cannot get there in one of its
own. Within a scope, two uses of one value under one sharding share their constraint, so the reshard
between is paid once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard, final

import jax
import jax.numpy as jnp

from shardwright.errors import ExecuteError
from shardwright.execute.marks import op_mark, operand_mark, result_mark, tensor_mark
from shardwright.execute.own_part import on_parts
from shardwright.execute.place import Placement
from shardwright.execute.shield import shielded
from shardwright.ir import Graph, Op, Region
from shardwright.jax_bridge import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    constraint_equation,
    extend_name_stack,
)
from shardwright.plan import OpDecision
from shardwright.sharding import Sharding

_BODIES = {
    "scan": ("jaxpr",),
    "while": ("cond_jaxpr", "body_jaxpr"),
    "cond": ("branches",),
    "remat2": ("jaxpr",),
    "checkpoint": ("jaxpr",),
}
"""Parameters that hold an operator's regions, in the order of the regions."""

_Link = tuple[Var, Var, Sharding, str]
"""A value, the same value held, how, and the mark of the constraint."""
_Ends = tuple[tuple[int, ...], str, Sharding | None, Sharding]
"""Shape, element type, start and target of a reshard."""


def inject(jaxpr: ClosedJaxpr, graph: Graph, placement: Placement) -> ClosedJaxpr:
    """The jaxpr with the plan's constraints; on one device, the jaxpr itself.

    Args:
        jaxpr: the step; equation k of every nested jaxpr is operator k of that region.
        graph: the same step as a graph.
        placement: the plan's stage on devices.

    Raises:
        ExecuteError: the jaxpr and the graph do not walk in step.
    """
    if placement.stage.mesh.num_devices == 1:
        return jaxpr
    writer = _Writer(
        graph=graph,
        placement=placement,
        decisions={decision.op_id: decision for decision in placement.stage.ops},
        routes={(r.shape, r.dtype, r.source, r.target): r.via for r in placement.stage.routes},
    )
    top = Region(name=graph.name, inputs=graph.inputs, outputs=graph.outputs, ops=graph.ops)
    return ClosedJaxpr(writer.rewrite(jaxpr.jaxpr, top, is_top=True), jaxpr.consts)


@final
@dataclass(frozen=True, kw_only=True)
class _Scope:
    """The equations written so far of one jaxpr, and the values held there, and how they lie."""

    equations: list[JaxprEqn] = field(default_factory=list)
    held: dict[tuple[Var, Sharding], Var] = field(default_factory=dict)
    lies: dict[Var, Sharding] = field(default_factory=dict)


@final
@dataclass(frozen=True, kw_only=True)
class _Writer:
    graph: Graph
    placement: Placement
    decisions: dict[int, OpDecision]
    routes: dict[_Ends, tuple[Sharding, ...]]

    def rewrite(
        self,
        jaxpr: Jaxpr,
        region: Region,
        *,
        is_top: bool,
        ends: Mapping[int, int] | None = None,
    ) -> Jaxpr:
        """One jaxpr with the plan in it; ``ends`` gives outputs the tensors that they become."""
        if len(jaxpr.eqns) != len(region.ops):
            raise _out_of_step(
                f"{len(jaxpr.eqns)} equations against {len(region.ops)} operators in {region.name}"
            )
        scope = _Scope()
        invars = self._inputs(scope, jaxpr, region, is_top=is_top)
        for equation, op in zip(jaxpr.eqns, region.ops, strict=True):
            self._rewrite_equation(scope, equation, op)
        outvars = list(jaxpr.outvars)
        for position, tensor_id in (ends or {}).items():
            outvars[position] = self._end(scope, jaxpr, position, tensor_id)
        return jaxpr.replace(invars=invars, eqns=scope.equations, outvars=outvars)

    def _end(self, scope: _Scope, jaxpr: Jaxpr, position: int, tensor_id: int) -> Atom:
        """An output of a body, held as the tensor that it becomes outside."""
        atom = jaxpr.outvars[position]
        sharding = self.placement.stage.sharding_of.get(tensor_id)
        if not jaxpr.eqns or sharding is None or not _can_hold(atom, sharding):
            return atom
        if (atom, sharding) not in scope.held:
            link = (atom, Var(atom.aval), sharding, tensor_mark(tensor_id))
            self._hold(scope, link, jaxpr.eqns[-1].source_info)
        return scope.held[atom, sharding]

    def _inputs(self, scope: _Scope, jaxpr: Jaxpr, region: Region, *, is_top: bool) -> list[Var]:
        invars = list(jaxpr.invars)
        for position, var in enumerate(jaxpr.invars):
            tensor_id = region.inputs[position]
            sharding = self.placement.stage.sharding_of.get(tensor_id)
            if sharding is None or not _can_hold(var, sharding):
                continue
            if is_top:
                # The program's input shardings place the arguments of the whole step.
                scope.held[var, sharding] = var
                scope.lies[var] = sharding
            elif jaxpr.eqns:
                invars[position] = Var(var.aval)
                link = (invars[position], var, sharding, tensor_mark(tensor_id))
                self._hold(scope, link, jaxpr.eqns[0].source_info)
        return invars

    def _rewrite_equation(self, scope: _Scope, equation: JaxprEqn, op: Op) -> None:
        if equation.primitive.name != op.kind or len(equation.outvars) != len(op.results):
            raise _out_of_step(
                f"equation {equation.primitive.name} with {len(equation.outvars)} results against"
                f" operator {op.kind} %{op.id} with {len(op.results)}",
                op.source,
            )
        info = equation.source_info
        decision = self.decisions.get(op.id)
        invars = [
            self._use(scope, atom, decision, position, info)
            for position, atom in enumerate(equation.invars)
        ]
        outvars, links = self._results(equation, op, decision)
        # A loop's own mark would stand before those of its body.
        marked = decision is not None and not op.regions
        equation = equation.replace(
            invars=invars,
            outvars=outvars,
            params=self._bodies(equation, op),
            source_info=extend_name_stack(info, op_mark(op.id)) if marked else info,
        )
        if decision is not None:
            equation = on_parts(equation, decision, self.placement) or equation
            scope.equations.extend(shielded(equation, decision))
        else:
            scope.equations.append(equation)
        for link in links:
            self._hold(scope, link, info)

    def _use(
        self,
        scope: _Scope,
        atom: Atom,
        decision: OpDecision | None,
        position: int,
        source_info: Any,
    ) -> Atom:
        """The operand, held as the plan decides it for this use."""
        sharding = None if decision is None else decision.operands[position]
        if decision is None or sharding is None or not _can_hold(atom, sharding):
            return atom
        if (atom, sharding) not in scope.held:
            mark = operand_mark(decision.op_id, position)
            self._hold(scope, (atom, Var(atom.aval), sharding, mark), source_info)
        return scope.held[atom, sharding]

    def _results(
        self, equation: JaxprEqn, op: Op, decision: OpDecision | None
    ) -> tuple[list[Var], list[_Link]]:
        """New names for the results, and the links that lead from them to the old names."""
        outvars, links = list(equation.outvars), list[_Link]()
        for position, var in enumerate(equation.outvars):
            mark, tensor_id = result_mark(op.id, position), op.results[position]
            whole = decision.partials[position] if decision and decision.partials else None
            chosen = None if decision is None else decision.results[position]
            resting = self.placement.stage.sharding_of.get(tensor_id)
            steps: list[tuple[Sharding, str]] = []
            for sharding, name in (whole, mark), (chosen, mark), (resting, tensor_mark(tensor_id)):
                is_new = sharding is not None and (not steps or steps[-1][0] != sharding)
                if sharding is not None and is_new and _can_hold(var, sharding):
                    steps.append((sharding, name))
            names = [*(Var(var.aval) for _ in steps), var]
            outvars[position] = names[0]
            links += [
                (names[i], names[i + 1], sharding, mark) for i, (sharding, mark) in enumerate(steps)
            ]
        return outvars, links

    def _hold(self, scope: _Scope, link: _Link, source_info: Any) -> None:
        source, target, sharding, mark = link
        info = extend_name_stack(source_info, mark)
        before = source
        for layout in self._way(scope, source, sharding):
            after = target if layout is sharding else Var(source.aval)
            named = self.placement.named(layout)
            scope.equations.append(constraint_equation(before, after, named, info))
            before = after
        scope.held[source, sharding] = target
        scope.held[target, sharding] = target
        scope.lies[target] = sharding

    def _way(self, scope: _Scope, source: Var, target: Sharding) -> tuple[Sharding, ...]:
        """How a value lies after each step of its reshard; the last is ``target`` itself."""
        aval: Any = source.aval
        key = (aval.shape, str(aval.dtype), scope.lies.get(source), target)
        return (*self.routes.get(key, ()), target)

    def _bodies(self, equation: JaxprEqn, op: Op) -> dict[str, Any]:
        """The equation's parameters with the plan written into its regions."""
        if not op.regions:
            return equation.params
        if op.kind not in _BODIES:
            raise ExecuteError(
                f"operator {op.kind} %{op.id} has {len(op.regions)} regions; this engine knows"
                f" those of {', '.join(sorted(_BODIES))}",
                where=op.source,
                hint="report it with the step that shows it",
            )
        params, regions = dict(equation.params), iter(op.regions)
        for name in _BODIES[op.kind]:
            body = params.get(name)
            if isinstance(body, tuple | list):
                params[name] = tuple(self._body(item, op, next(regions)) for item in body)
            elif body is not None:
                params[name] = self._body(body, op, next(regions))
        return params

    def _body(self, body: Any, op: Op, region: Region) -> Any:
        jaxpr = body.jaxpr if isinstance(body, ClosedJaxpr) else body
        written = self.rewrite(jaxpr, region, is_top=False, ends=_ends(op, region))
        return ClosedJaxpr(written, body.consts) if isinstance(body, ClosedJaxpr) else written


def _ends(op: Op, region: Region) -> dict[int, int]:
    """Outputs of a body that must lie as something outside: a loop's carries, a branch's results.

    A carry whose next value lies otherwise would make XLA carry it that way, through every trip.
    """
    if op.kind == "cond":
        return dict(enumerate(op.results))
    if op.kind == "scan":
        first, count = (_int(op, name) for name in ("num_consts", "num_carry"))
    elif op.kind == "while" and region.name == "body":
        first, count = _int(op, "body_nconsts"), len(region.outputs)
    else:
        return {}
    return {position: region.inputs[first + position] for position in range(count)}


def _int(op: Op, name: str) -> int:
    value = op.attribute(name)
    assert isinstance(value, int), f"{op.kind} %{op.id} without {name}"
    return value


def _can_hold(atom: Atom, sharding: Sharding) -> TypeGuard[Var]:
    """Whether a constraint on this value means something to XLA.

    Scalars, literals, typed random keys and values that nobody reads follow their neighbours; an
    unreduced value has no name under automatic partitioning.
    """
    if isinstance(atom, Literal | DropVar) or sharding.unreduced or not sharding.dims:
        return False
    aval: Any = atom.aval
    return not jnp.issubdtype(aval.dtype, jax.dtypes.extended) and aval.dtype != jax.dtypes.float0


def _out_of_step(what: str, where: str = "") -> ExecuteError:
    return ExecuteError(
        f"the jaxpr and the graph differ: {what}",
        where=where,
        hint="the jaxpr and the graph of one capture",
    )
