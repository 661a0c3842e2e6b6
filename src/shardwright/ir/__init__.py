"""The graph: what a training step computes, free of any framework.

Read ``graph.py`` for the records, ``text.py`` for their printed form, ``verify.py`` for their rules
and ``program.py`` for the same graph as one flat list of operators in running order.
"""

from shardwright.ir.dtypes import itemsize_bytes as itemsize_bytes
from shardwright.ir.graph import Attribute as Attribute
from shardwright.ir.graph import Graph as Graph
from shardwright.ir.graph import Op as Op
from shardwright.ir.graph import Region as Region
from shardwright.ir.graph import Role as Role
from shardwright.ir.graph import Tensor as Tensor
