"""Reference models: whole training steps in plain JAX, from two layers to published sizes.

Start at ``registry.build``: it turns a name and sizes into a ``StepCase``. Each model is one small
file of functions on dictionaries; what they share is in ``layers``, ``attention`` and ``stack``.
"""
