"""Every private or moving name of JAX that the house uses, in one file.

Checked on jax 0.10.2. A name that a newer release has moved fails here, at import or at its first
use, with a message that says which name and which releases are known to work.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardwright.errors import UsageError

CHECKED_ON = "0.10.2"
"""The release of jax on which every name below was last checked."""


def missing_name(name: str) -> UsageError:
    """The error for a name that the installed jax lacks."""
    import jax

    return UsageError(
        f"jax {jax.__version__} has no {name}, which was checked on jax {CHECKED_ON}",
        hint='pip install "jax>=0.10.2,<0.11"',
    )


def need(module: str, name: str) -> Any:
    """The object called ``name`` in a jax module.

    Raises:
        UsageError: the installed jax lacks the module or the name.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise missing_name(f"{module}.{name}") from None


if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr as ClosedJaxpr
    from jax.extend.core import DropVar as DropVar
    from jax.extend.core import Jaxpr as Jaxpr
    from jax.extend.core import JaxprEqn as JaxprEqn
    from jax.extend.core import Literal as Literal
    from jax.extend.core import Var as Var
    from jax.extend.core import check_jaxpr as check_jaxpr
    from jax.extend.core import jaxpr_as_fun as jaxpr_as_fun
    from jax.extend.core import new_jaxpr_eqn as new_jaxpr_eqn
    from jax.tree_util import PyTreeDef as PyTreeDef
else:
    ClosedJaxpr = need("jax.extend.core", "ClosedJaxpr")
    DropVar = need("jax.extend.core", "DropVar")
    Jaxpr = need("jax.extend.core", "Jaxpr")
    JaxprEqn = need("jax.extend.core", "JaxprEqn")
    Literal = need("jax.extend.core", "Literal")
    Var = need("jax.extend.core", "Var")
    check_jaxpr = need("jax.extend.core", "check_jaxpr")
    jaxpr_as_fun = need("jax.extend.core", "jaxpr_as_fun")
    new_jaxpr_eqn = need("jax.extend.core", "new_jaxpr_eqn")
    PyTreeDef = need("jax.tree_util", "PyTreeDef")

Atom = Var | Literal
"""What an equation reads."""

_dce_jaxpr = need("jax._src.interpreters.partial_eval", "dce_jaxpr")
_is_user_filename = need("jax._src.source_info_util", "is_user_filename")
_extended_dtype = need("jax._src.dtypes", "ExtendedDType")
_read_effect = need("jax._src.state.types", "ReadEffect")
_write_effect = need("jax._src.state.types", "WriteEffect")
_accum_effect = need("jax._src.state.types", "AccumEffect")


def is_extended_dtype(value: object) -> bool:
    """Whether an element type is JAX's own, such as that of typed random keys."""
    return isinstance(value, _extended_dtype)


def drop_dead_equations(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without equations that no output or side effect needs; every input stays."""
    live, _ = _dce_jaxpr(jaxpr, True, instantiate=True)
    return live


def is_user_file(filename: str) -> bool:
    """Whether a file lies outside JAX and the standard library."""
    return bool(_is_user_filename(filename))


def raw_frames(traceback: Any) -> tuple[Sequence[types.CodeType], Sequence[int]]:
    """Code objects and instruction offsets of an equation's traceback, innermost first."""
    if traceback is None:
        return (), ()
    codes, offsets = traceback.raw_frames()
    return codes, offsets


def frame_line(code: types.CodeType, offset: int) -> int:
    """The source line of an instruction of ``code``."""
    return int(_traceback_class().code_addr2line(code, offset))


def touches_memory(effects: Any) -> bool:
    """Whether an equation reads or writes a mutable reference (``jax.Ref``)."""
    return any(isinstance(e, (_read_effect, _write_effect, _accum_effect)) for e in effects)


def _traceback_class() -> Any:
    return need("jax._src.lib", "xla_client").Traceback


# -- constraints: what execute writes into a jaxpr --


def constraint_equation(source: Var, target: Var, sharding: Any, source_info: Any) -> JaxprEqn:
    """The equation that makes ``target`` equal ``source``, held to a ``NamedSharding``."""
    import jax

    return new_jaxpr_eqn(
        [source],
        [target],
        need("jax.extend.core.primitives", "sharding_constraint_p"),
        {
            "sharding": sharding,
            "layout": None,
            "context_mesh": jax.sharding.get_abstract_mesh(),
            "unconstrained_dims": frozenset(),
        },
        set(),
        source_info,
    )


def extend_name_stack(source_info: Any, name: str) -> Any:
    """The source information of an equation with one more name on its name stack."""
    return source_info.replace(name_stack=source_info.name_stack.extend(name))
