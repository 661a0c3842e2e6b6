"""The rule of convolutions: ``n h w i, kh kw i o -> n h w o``, i reduced by sum, h and w halos.

Groups show as a factor of their own: features are ``(g i)`` and ``(g o)``, or the batch ``(g n)``.
Where the kernel's elements lie side by side (patches, or one window over everything) the kernel's
dim is a reduction as well.

The gradient with respect to a kernel is a convolution whose "kernel" is as wide as the input. Its
wide dim is really a reduction with a halo; it is kept whole for now, and batch and features, which
such a convolution reduces or passes, are what can be cut.
"""

from __future__ import annotations

from shardwright.sharding.factor import Combiner, OpRule, Window
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction
from shardwright.sharding.rules.view import OpView
from shardwright.sharding.rules.window import WindowDims, window_dims


def conv_rule(view: OpView) -> OpRule:
    """The rule of a convolution with any layout, stride, dilation, padding and groups."""
    rhs = view.operands[1]
    (out,) = view.results
    lhs_spec, rhs_spec, out_spec = (
        view.ints(f"dimension_numbers.{side}_spec") for side in ("lhs", "rhs", "out")
    )
    batch_groups = view.integer("batch_group_count", 1)
    feature_groups = view.integer("feature_group_count", 1)
    draft = RuleDraft()
    batch_group = draft.passes("g", batch_groups)
    feature_group = draft.passes("g", feature_groups)
    batch = draft.passes("n", out.shape[out_spec[0]])
    spatial = _spatial_dims(view, draft, lhs_spec, out_spec)
    inner = draft.reduces("i", rhs.shape[rhs_spec[1]], Combiner.SUM)
    # Either kind of group is the major part of the output features; at most one kind is there.
    group = batch_group + feature_group
    outer = draft.passes("o", rhs.shape[rhs_spec[0]] // (batch_groups * feature_groups))
    return draft.rule(
        [
            _placed(
                lhs_spec,
                [batch_group + batch, feature_group + inner, *(dim.operand for dim in spatial)],
            ),
            _placed(rhs_spec, [group + outer, inner, *(dim.window for dim in spatial)]),
        ],
        [_placed(out_spec, [batch, group + outer, *(dim.result for dim in spatial)])],
    )


def _spatial_dims(
    view: OpView, draft: RuleDraft, lhs_spec: tuple[int, ...], out_spec: tuple[int, ...]
) -> list[WindowDims]:
    lhs, (out,) = view.operands[0], view.results
    dims = []
    for axis, window in enumerate(_windows(view)):
        sizes = (lhs.shape[lhs_spec[axis + 2]], out.shape[out_spec[axis + 2]])
        name = _spatial_name(axis, len(lhs_spec) - 2)
        dims.append(window_dims(draft, name, sizes, window, combiner=Combiner.SUM, has_kernel=True))
    return dims


def _windows(view: OpView) -> list[Window]:
    rhs = view.operands[1]
    kernel = [rhs.shape[d] for d in view.ints("dimension_numbers.rhs_spec")[2:]]
    ones = (1,) * len(kernel)
    return [
        Window(
            size=size,
            stride=stride,
            dilation=dilation,
            base_dilation=base_dilation,
            pad_low=pads[0],
            pad_high=pads[1],
        )
        for size, stride, dilation, base_dilation, pads in zip(
            kernel,
            view.ints("window_strides") or ones,
            view.ints("rhs_dilation") or ones,
            view.ints("lhs_dilation") or ones,
            view.int_lists("padding") or ((0, 0),) * len(kernel),
            strict=True,
        )
    ]


def _spatial_name(axis: int, count: int) -> str:
    names = "dhw"[-count:] if count <= 3 else ""
    return names[axis] if names else f"x{axis}"


def _placed(spec: tuple[int, ...], dims: list[Dim]) -> list[Dim]:
    """The dims put where ``spec`` says: ``dims[i]`` is dim ``spec[i]`` of the tensor."""
    at = dict(zip(spec, dims, strict=True))
    return [at[d] for d in range(len(spec))]


RULES: dict[str, RuleFunction] = {"conv_general_dilated": conv_rule}
