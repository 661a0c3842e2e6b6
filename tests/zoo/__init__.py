"""Training steps written with the frameworks that users bring: flax linen, flax nnx, equinox."""
