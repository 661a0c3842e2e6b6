"""Rules of windows that slide over dims: pooling, its gradients, and how any window cuts a dim.

A window along one dim is one of four things:

- trivial (one element, no step, no padding): the dim passes through;
- tiles (side by side, covering the dim exactly): the dim is ``(o w)``, tile and element in it;
- sliding: a halo, each device needs the edge of its neighbours' parts;
- too wide (it reaches over more than half of the dim): the dim must be whole.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from shardwright.sharding.factor import Combiner, OpRule, Window
from shardwright.sharding.rules.draft import Dim, RuleDraft, RuleFunction, dim_name
from shardwright.sharding.rules.view import OpView


class WindowDims(NamedTuple):
    """The factors that one window makes.

    Attributes:
        operand: of the dim that it slides over.
        result: of the dim of its positions.
        window: of its own elements, as a kernel's dim has them.
    """

    operand: Dim
    result: Dim
    window: Dim


def window_dims(
    draft: RuleDraft,
    name: str,
    sizes: tuple[int, int],
    window: Window,
    *,
    combiner: Combiner | None,
    has_kernel: bool = False,
) -> WindowDims:
    """The factors of one dim that a window slides over.

    Args:
        draft: where the factors go.
        name: of the dim; the window's own elements are ``k`` and that name.
        sizes: the operand's dim and the result's dim.
        window: what slides.
        combiner: what joins the elements of one window, None where nothing does.
        has_kernel: whether an operand has a dim of the window's own elements.
    """
    operand_size, result_size = sizes
    if is_trivial(window):
        passed = draft.passes(name, result_size)
        return WindowDims(passed, passed, ())
    if _is_tiled(window, operand_size, result_size):
        tile = draft.passes(name, result_size)
        inner = f"k{name}"
        element = (
            draft.whole(window.size, inner)
            if combiner is None
            else draft.reduces(inner, window.size, combiner)
        )
        return WindowDims(tile + element, tile, element)
    kernel = draft.whole(window.size, f"k{name}") if has_kernel else ()
    if _is_local(window, operand_size) and result_size > 1:
        slid = draft.slides(name, result_size, window)
        return WindowDims(slid, slid, kernel)
    return WindowDims(draft.whole(operand_size), draft.whole(result_size), kernel)


def is_trivial(window: Window) -> bool:
    """Whether the result's elements are the operand's, one by one."""
    return (
        window.size == window.stride == window.base_dilation == 1
        and window.pad_low == window.pad_high == 0
    )


def _is_tiled(window: Window, operand_size: int, result_size: int) -> bool:
    if window.pad_low or window.pad_high or window.base_dilation > 1:
        return False
    if window.dilation > 1 and window.size > 1:
        return False
    side_by_side = window.stride == window.size or result_size == 1
    return side_by_side and operand_size == window.size * result_size


def _is_local(window: Window, operand_size: int) -> bool:
    reach = (window.size - 1) * window.dilation + 1
    return 2 * (reach - window.stride) <= operand_size * window.base_dilation


def operator_windows(view: OpView) -> tuple[Window, ...]:
    """The window along each dim of a pooling operator, from its attributes."""
    sizes = view.ints("window_dimensions")
    ones = (1,) * len(sizes)
    return tuple(
        Window(
            size=size,
            stride=stride,
            dilation=dilation,
            base_dilation=base_dilation,
            pad_low=pads[0],
            pad_high=pads[1],
        )
        for size, stride, dilation, base_dilation, pads in zip(
            sizes,
            view.ints("window_strides") or ones,
            view.ints("window_dilation") or ones,
            view.ints("base_dilation") or ones,
            view.int_lists("padding") or ((0, 0),) * len(sizes),
            strict=True,
        )
    )


def reduce_window_rule(view: OpView, *, combiner: Combiner | None) -> OpRule:
    """The rule of pooling: operands and results alike, each window joined by ``combiner``.

    Initial values, where there are any, are scalars.
    """
    draft = RuleDraft()
    shape, result_shape = view.operands[0].shape, view.results[0].shape
    dims = [
        window_dims(draft, dim_name(d), (shape[d], result_shape[d]), window, combiner=combiner)
        for d, window in enumerate(operator_windows(view))
    ]
    slid = [dim.operand for dim in dims]
    operands = [slid if tensor.rank else [] for tensor in view.operands]
    return draft.rule(operands, [[dim.result for dim in dims] for _ in view.results])


def general_reduce_window_rule(view: OpView) -> OpRule:
    """The rule of pooling by any function: the initial value joins each shard's windows."""
    return reduce_window_rule(view, combiner=None)


def select_and_scatter_rule(view: OpView, *, source: int, operand: int) -> OpRule:
    """The rule of pooling's gradient: each window's element is picked and gets the source's.

    Tiles pass, their elements whole. Sliding windows overlap and add up in each other's parts, so
    a dim that they slide over must be whole.

    Args:
        view: the operator.
        source: which operand has one element per window.
        operand: which has the elements to pick from; the result is shaped like it.
    """
    draft = RuleDraft()
    full = view.operands[operand].shape
    small = view.operands[source].shape
    wide: list[Dim] = []
    narrow: list[Dim] = []
    for d, window in enumerate(operator_windows(view)):
        if is_trivial(window) or _is_tiled(window, full[d], small[d]):
            made = window_dims(draft, dim_name(d), (full[d], small[d]), window, combiner=None)
            wide.append(made.operand)
            narrow.append(made.result)
        else:
            wide.append(draft.whole(full[d]))
            narrow.append(draft.whole(small[d]))
    shapes: list[list[Dim]] = [[] for _ in view.operands]
    shapes[source], shapes[operand] = narrow, wide
    return draft.rule(shapes, [wide])


RULES: dict[str, RuleFunction] = {
    "reduce_window": general_reduce_window_rule,
    "reduce_window_sum": partial(reduce_window_rule, combiner=Combiner.SUM),
    "reduce_window_max": partial(reduce_window_rule, combiner=Combiner.MAX),
    "reduce_window_min": partial(reduce_window_rule, combiner=Combiner.MIN),
    "select_and_gather_add": partial(reduce_window_rule, combiner=None),
    "select_and_scatter": partial(select_and_scatter_rule, source=1, operand=0),
    "select_and_scatter_add": partial(select_and_scatter_rule, source=0, operand=1),
}
