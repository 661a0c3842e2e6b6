"""Execute: a plan run on JAX, what XLA made of it read back, and its numbers checked.

Read ``on_jax.py`` for the program, ``inject.py`` for how a plan's decisions enter the jaxpr,
``read_back.py`` for what the compiler really did, ``compare.py`` for the two side by side and
``check.py`` for the same step on one device.
"""

from shardwright.execute.check import CheckResult as CheckResult
from shardwright.execute.check import LeafDifference as LeafDifference
from shardwright.execute.check import check as check
from shardwright.execute.compare import CollectiveRow as CollectiveRow
from shardwright.execute.compare import Comparison as Comparison
from shardwright.execute.compare import compare as compare
from shardwright.execute.create import create as create
from shardwright.execute.devices import ordered_devices as ordered_devices
from shardwright.execute.devices import this_machine as this_machine
from shardwright.execute.on_jax import Program as Program
from shardwright.execute.on_jax import program as program
from shardwright.execute.read_back import MeasuredCollective as MeasuredCollective
from shardwright.execute.read_back import MeasuredMemory as MeasuredMemory
from shardwright.execute.read_back import ReadBack as ReadBack
from shardwright.execute.read_back import parse_collectives as parse_collectives
from shardwright.execute.read_back import read_back as read_back
