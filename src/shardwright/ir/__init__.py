"""The graph: what a training step computes, free of any framework.

Read ``graph.py`` for the records, ``text.py`` for their printed form, ``verify.py`` for their rules
and ``flat.py`` for the same graph as one flat list of operators in running order.
"""

from shardwright.ir.dtypes import itemsize_bytes as itemsize_bytes
from shardwright.ir.graph import Attribute as Attribute
from shardwright.ir.graph import Graph as Graph
from shardwright.ir.graph import Op as Op
from shardwright.ir.graph import Region as Region
from shardwright.ir.graph import Role as Role
from shardwright.ir.graph import Tensor as Tensor
from shardwright.ir.parse import parse_graph as parse_graph
from shardwright.ir.text import print_graph as print_graph
from shardwright.ir.text import print_op as print_op
from shardwright.ir.verify import verify_graph as verify_graph
