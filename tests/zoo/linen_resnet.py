"""A residual network of flax linen modules, with batch norm and a max pool."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from shardwright.models.batches import image_source
from shardwright.models.case import Batch, Params, StepCase
from shardwright.models.layers import cross_entropy
from shardwright.models.train import TrainConfig, stats_step_case


class Block(nn.Module):
    width: int
    stride: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        strides = (self.stride, self.stride)
        y = nn.Conv(self.width, (3, 3), strides, use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=False)(y))
        y = nn.Conv(self.width, (3, 3), use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=False)(y)
        if x.shape != y.shape:
            x = nn.Conv(self.width, (1, 1), strides, use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=False)(x)
        return nn.relu(x + y)


class Resnet(nn.Module):
    widths: tuple[int, ...]
    classes: int

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        x = nn.Conv(self.widths[0], (3, 3), use_bias=False)(images)
        x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        for stage, width in enumerate(self.widths):
            x = Block(width, stride=2 if stage else 1)(x)
        return nn.Dense(self.classes)(jnp.mean(x, axis=(1, 2)))


def case(
    *,
    name: str,
    widths: tuple[int, ...] = (8, 16),
    image: int = 16,
    classes: int = 8,
    batch: int = 16,
    optimizer: str = "sgd",
) -> StepCase:
    model = Resnet(widths, classes)

    def init(key: jax.Array) -> tuple[Params, Params]:
        variables = model.init(key, jnp.zeros((batch, image, image, 3)))
        return variables["params"], variables["batch_stats"]

    def loss(params: Params, stats: Params, batch: Batch) -> tuple[jax.Array, Params]:
        variables = {"params": params, "batch_stats": stats}
        logits, updated = model.apply(variables, batch["images"], mutable=["batch_stats"])
        return cross_entropy(logits, batch["labels"]), updated["batch_stats"]

    return stats_step_case(
        name=name,
        init=init,
        loss=loss,
        batches=image_source(batch=batch, image=image, channels=3, classes=classes),
        train=TrainConfig(optimizer=optimizer),
    )
