"""Rules of operators that make numbers from positions and keys.

Threefry's bits depend on the key and the element's position alone, so every device can make its own
part of them and no device needs another's: each dim of the result passes, and the key is whole.
Generators of other kinds give bits that depend on the whole shape.

Source:
    ``jax_threefry_partitionable``, on by default: docs.jax.dev, "Pseudorandom numbers" and
    "Distributed arrays and automatic parallelization", generating random numbers.
"""

from __future__ import annotations

from functools import partial

from shardwright.sharding.factor import OpRule
from shardwright.sharding.rules.draft import RuleDraft, RuleFunction, whole_rule
from shardwright.sharding.rules.elementwise import elementwise_rule
from shardwright.sharding.rules.view import OpView

_THREEFRY_KEY = "key<fry>"


def position_rule(view: OpView) -> OpRule:
    """The rule ``-> i j`` of an operator without operands."""
    draft = RuleDraft()
    dims = draft.all_pass(view.results[0].shape)
    return draft.rule([], [dims for _ in view.results])


def keyed_rule(view: OpView) -> OpRule:
    """The rule ``i -> i j k``: dims of the keys pass, and each key's own dims where it may."""
    keys, result = view.operands[0], view.results[0]
    draft = RuleDraft()
    dims = draft.all_pass(result.shape)
    if keys.dtype == _THREEFRY_KEY:
        return draft.rule([dims[: keys.rank]], [dims])
    draft = RuleDraft()
    batch = draft.all_pass(keys.shape)
    return draft.rule([batch], [[*batch, *draft.all_whole(result.shape[keys.rank :])]])


def stateful_rule(view: OpView) -> OpRule:
    """The rule of a generator whose bits depend on the whole shape: nothing may be cut."""
    draft = RuleDraft()
    return draft.rule(
        [draft.all_whole(operand.shape) for operand in view.operands],
        [draft.all_whole(result.shape) for result in view.results],
    )


_REJECTION = "it draws until it accepts, and its keys depend on each element's place in the whole"

RULES: dict[str, RuleFunction] = {
    "iota": position_rule,
    "iota_2x32_shape": position_rule,
    "philox2x32": elementwise_rule,
    "philox4x32": elementwise_rule,
    "random_bits": keyed_rule,
    "random_clone": elementwise_rule,
    "random_fold_in": elementwise_rule,
    "random_gamma": partial(whole_rule, reason=_REJECTION),
    "random_seed": elementwise_rule,
    "random_split": keyed_rule,
    "rng_bit_generator": stateful_rule,
    "rng_uniform": stateful_rule,
    "threefry2x32": elementwise_rule,
    "threefry4x32": elementwise_rule,
}
