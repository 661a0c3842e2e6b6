"""Operators that run code which no rule can look into: kept whole, with the reason.

Their rules are recorded fallbacks, so a report names them as the places where parallelism stops.
"""

from __future__ import annotations

from functools import partial

from shardwright.sharding.rules.draft import RuleFunction, whole_rule

_HOST_CODE = "it calls Python code on the host, which expects whole arrays"
_DEBUG = "it shows values to the user, who expects them whole"
_KERNEL = "its kernel is written by hand, and nothing says how it may be cut"
_FOREIGN = "it calls a foreign function, and nothing says how it may be cut"
_OWN_SHARDING = "it brings its own partitioning, which only the compiler calls"
_WRAPPED = "the linear function it wraps may mix every element of its operands"
_DEVICES = "it runs programs that name their own devices"

_REASONS: dict[str, str] = {
    "buffer_callback": _HOST_CODE,
    "core_map": _DEVICES,
    "custom_linear_solve": _WRAPPED,
    "custom_partitioning": _OWN_SHARDING,
    "debug_callback": _DEBUG,
    "debug_print": _DEBUG,
    "ffi_call": _FOREIGN,
    "inspect_sharding": _DEBUG,
    "io_callback": _HOST_CODE,
    "linear_call": _WRAPPED,
    "mpmd_map": _DEVICES,
    "pallas_call": _KERNEL,
    "pure_callback": _HOST_CODE,
    "tpu_custom_call": _KERNEL,
}

RULES: dict[str, RuleFunction] = {
    kind: partial(whole_rule, reason=reason) for kind, reason in _REASONS.items()
}
