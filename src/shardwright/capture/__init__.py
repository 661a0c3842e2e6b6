"""Capture: a training step, written as a plain function, becomes a graph.

Read ``from_jax.py`` first: it calls the rest in order. ``arguments.py`` flattens and names,
``trace.py`` traces, ``normalise.py`` inlines, ``build.py`` writes the graph, ``roles.py`` says what
each tensor is for.
"""

from shardwright.capture.from_jax import capture as capture
from shardwright.capture.record import Captured as Captured
