"""What the sizes of a model must satisfy, with errors that name both numbers."""

from __future__ import annotations

from shardwright.errors import UsageError


def require_multiple(**sizes: int) -> None:
    """Refuse sizes of which the first is no multiple of the second.

    Args:
        sizes: two fields of a config by name, such as ``d_model=64, heads=8``.

    Raises:
        UsageError: the first is no multiple of the second.
    """
    (whole_name, whole), (part_name, part) = sizes.items()
    if part < 1 or whole % part:
        raise UsageError(
            f"{whole_name} {whole} is not a multiple of {part_name} {part}",
            hint=f"a value of {part_name} that divides {whole}",
        )


def require_at_most(**sizes: int) -> None:
    """Refuse sizes of which the first is larger than the second.

    Args:
        sizes: two fields of a config by name, such as ``top_k=2, experts=8``.

    Raises:
        UsageError: the first is larger than the second.
    """
    (name, value), (limit_name, limit) = sizes.items()
    if value > limit:
        raise UsageError(
            f"{name} {value} is larger than {limit_name} {limit}",
            hint=f"{name} of at most {limit}",
        )
