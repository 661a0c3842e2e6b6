"""Search: the best strategy for every operator, over every mesh that the machines allow.

Read ``fold.py`` (repetition), ``lead.py`` (who decides), ``space.py`` and ``build.py`` (strategies
and prices), ``intra.py`` (the integer program and memory), ``recipes.py`` (layouts by name),
``find.py`` (the search over meshes) and ``assemble.py`` (the plan).
"""
