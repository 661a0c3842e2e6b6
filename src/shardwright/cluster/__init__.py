"""The machines: what devices there are, what joins them, and meshes laid over them."""

from shardwright.cluster.mesh import Axis as Axis
from shardwright.cluster.mesh import AxisLink as AxisLink
from shardwright.cluster.mesh import Mesh as Mesh
from shardwright.cluster.mesh import PlacedMesh as PlacedMesh
from shardwright.cluster.topology import Device as Device
from shardwright.cluster.topology import LinkLevel as LinkLevel
from shardwright.cluster.topology import Topology as Topology
