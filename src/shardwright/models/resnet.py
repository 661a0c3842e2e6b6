"""Residual networks with batch norm; images are [batch, height, width, channels].

**Source**: He et al. 2015, Deep Residual Learning for Image Recognition, section 4; Zagoruyko and
Komodakis 2016, Wide Residual Networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp

from shardwright.models.batches import image_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.conv import apply_conv, init_conv, init_stats
from shardwright.models.layers import cast, cross_entropy, normal
from shardwright.models.train import TrainConfig, stats_step_case

_EXPANSION = 4  # a bottleneck block's output over its stage's width


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResnetConfig:
    """Sizes of a residual network.

    Attributes:
        stages: blocks of each stage; each stage after the first halves the image and doubles the
            width.
        width: channels of the first stage.
        width_factor: inner channels of a block over its stage's width.
        window_factor: output channels of a bottleneck's 3x3 convolution over its input channels.
        bottleneck: blocks of three convolutions that widen fourfold, else of two.
        large_stem: a 7x7 convolution of stride 2 and a max pool, for large images.
    """

    stages: tuple[int, ...] = (1, 1)
    width: int = 16
    width_factor: int = 1
    window_factor: int = 1
    bottleneck: bool = False
    large_stem: bool = False
    image: int = 16
    channels: int = 3
    classes: int = 16
    batch: int = 16
    param_dtype: str = "float32"
    compute_dtype: str = "float32"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """One residual block: its convolutions as (kernel size, output channels, stride)."""

    inputs: int
    convs: tuple[tuple[int, int, int], ...]

    @property
    def outputs(self) -> int:
        """Channels of the result."""
        return self.convs[-1][1]

    @property
    def stride(self) -> int:
        """By how much the image shrinks."""
        return max(stride for _, _, stride in self.convs)

    @property
    def has_shortcut_conv(self) -> bool:
        """Whether the input must change its shape before it is added."""
        return self.stride != 1 or self.inputs != self.outputs


def block_shapes(config: ResnetConfig) -> tuple[BlockShape, ...]:
    """All blocks of the network, in order."""
    shapes = []
    inputs = config.width
    for stage, depth in enumerate(config.stages):
        width = config.width * 2**stage
        for index in range(depth):
            stride = 2 if stage > 0 and index == 0 else 1
            shape = BlockShape(inputs=inputs, convs=_block_convs(config, width, stride))
            shapes.append(shape)
            inputs = shape.outputs
    return tuple(shapes)


def _block_convs(config: ResnetConfig, width: int, stride: int) -> tuple[tuple[int, int, int], ...]:
    inner = width * config.width_factor
    if config.bottleneck:
        window = (3, inner * config.window_factor, stride)
        return ((1, inner, 1), window, (1, width * _EXPANSION, 1))
    return ((3, inner, stride), (3, width, 1))


def init(config: ResnetConfig, key: jax.Array) -> tuple[Params, Params]:
    """Weights and running statistics, both as ``stem`` and ``blocks``; weights also ``head``."""
    stem_key, blocks_key, head_key = jax.random.split(key, 3)
    shapes = block_shapes(config)
    dtype, outputs = config.param_dtype, shapes[-1].outputs
    block_keys = jax.random.split(blocks_key, len(shapes))
    stem_size = 7 if config.large_stem else 3
    params = {
        "stem": init_conv(
            stem_key, size=stem_size, inputs=config.channels, outputs=config.width, dtype=dtype
        ),
        "blocks": [
            _init_block(shape, each, dtype) for shape, each in zip(shapes, block_keys, strict=True)
        ],
        "head": normal(head_key, (outputs, config.classes), fan_in=outputs, dtype=dtype),
        "head_bias": jnp.zeros(config.classes, dtype),
    }
    stats = {"stem": init_stats(config.width), "blocks": [_block_stats(each) for each in shapes]}
    return params, stats


def _init_block(shape: BlockShape, key: jax.Array, dtype: str) -> Params:
    *keys, shortcut_key = jax.random.split(key, len(shape.convs) + 1)
    convs = []
    inputs = shape.inputs
    for (size, outputs, _), conv_key in zip(shape.convs, keys, strict=True):
        convs.append(init_conv(conv_key, size=size, inputs=inputs, outputs=outputs, dtype=dtype))
        inputs = outputs
    block: Params = {"convs": convs}
    if shape.has_shortcut_conv:
        block["shortcut"] = init_conv(
            shortcut_key, size=1, inputs=shape.inputs, outputs=shape.outputs, dtype=dtype
        )
    return block


def _block_stats(shape: BlockShape) -> Params:
    stats: Params = {"convs": [init_stats(outputs) for _, outputs, _ in shape.convs]}
    if shape.has_shortcut_conv:
        stats["shortcut"] = init_stats(shape.outputs)
    return stats


def block(
    shape: BlockShape, params: Params, stats: Params, x: jax.Array
) -> tuple[jax.Array, Params]:
    """``x`` [batch, height, width, inputs] after one block, and its new statistics."""
    new_stats: Params = {"convs": []}
    residual = x
    layers = zip(shape.convs, params["convs"], stats["convs"], strict=True)
    for index, ((_, _, stride), conv_params, conv_stats) in enumerate(layers):
        x = jax.nn.relu(x) if index else x
        x, updated = apply_conv(conv_params, conv_stats, x, stride=stride)
        new_stats["convs"].append(updated)
    if "shortcut" in params:
        residual, new_stats["shortcut"] = apply_conv(
            params["shortcut"], stats["shortcut"], residual, stride=shape.stride
        )
    return jax.nn.relu(x + residual), new_stats


def forward(
    config: ResnetConfig, params: Params, stats: Params, images: jax.Array
) -> tuple[jax.Array, Params]:
    """Logits [batch, classes] for ``images``, and the new running statistics."""
    params = cast(params, config.compute_dtype)
    new_stats: Params = {"blocks": []}
    x, new_stats["stem"] = _stem(config, params["stem"], stats["stem"], images)
    layers = zip(block_shapes(config), params["blocks"], stats["blocks"], strict=True)
    for shape, block_params, block_stats in layers:
        x, updated = block(shape, block_params, block_stats, x)
        new_stats["blocks"].append(updated)
    pooled = jnp.mean(x, axis=(1, 2))
    return pooled @ params["head"] + params["head_bias"], new_stats


def _stem(
    config: ResnetConfig, params: Params, stats: Params, images: jax.Array
) -> tuple[jax.Array, Params]:
    x = images.astype(config.compute_dtype)
    x, updated = apply_conv(params, stats, x, stride=2 if config.large_stem else 1)
    x = jax.nn.relu(x)
    return (_max_pool(x) if config.large_stem else x), updated


def _max_pool(x: jax.Array) -> jax.Array:
    """The largest of each 3x3 window, with stride 2."""
    return jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), padding="SAME"
    )


def loss(
    config: ResnetConfig, params: Params, stats: Params, batch: Batch
) -> tuple[jax.Array, Params]:
    """Mean cross-entropy, a float32 scalar in nats, and the new running statistics."""
    logits, new_stats = forward(config, params, stats, batch["images"])
    return cross_entropy(logits, batch["labels"]), new_stats


def case(config: ResnetConfig, train: TrainConfig) -> StepCase:
    """The training step of this model."""
    return stats_step_case(
        name="resnet",
        init=partial(init, config),
        loss=partial(loss, config),
        batches=image_source(
            batch=config.batch,
            image=config.image,
            channels=config.channels,
            classes=config.classes,
        ),
        train=train,
    )
