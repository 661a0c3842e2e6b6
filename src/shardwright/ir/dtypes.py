"""Element types by name, with the bytes that one element takes in device memory."""

from __future__ import annotations

from shardwright.errors import GraphError, did_you_mean

_ITEMSIZE_BYTES = {
    "bool": 1,
    "int2": 1,
    "uint2": 1,
    "int4": 1,
    "uint4": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float4_e2m1fn": 1,
    "float8_e3m4": 1,
    "float8_e4m3": 1,
    "float8_e8m0fnu": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3b11fnuz": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "float0": 0,
    "key<fry>": 8,
    "key<rbg>": 16,
    "key<unsafe_rbg>": 16,
}


def itemsize_bytes(dtype: str) -> int:
    """Bytes of one element of ``dtype``; typed random keys count their raw words.

    Raises:
        GraphError: the name is not a known element type.
    """
    try:
        return _ITEMSIZE_BYTES[dtype]
    except KeyError:
        raise GraphError(
            f"{dtype!r} is not a known element type", hint=did_you_mean(dtype, _ITEMSIZE_BYTES)
        ) from None


def is_floating(dtype: str) -> bool:
    """Whether gradients can flow through elements of this type."""
    return dtype.startswith(("float", "bfloat", "complex")) and dtype != "float0"
