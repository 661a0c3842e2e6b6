"""What things take: time of collectives and compute, from published peaks until measured."""

from shardwright.cost.collective import collective_time_s as collective_time_s
from shardwright.cost.compute import matmul_time_s as matmul_time_s
from shardwright.cost.compute import memory_time_s as memory_time_s
from shardwright.cost.compute import op_time_s as op_time_s
from shardwright.cost.compute import peak_flops_per_s as peak_flops_per_s
from shardwright.cost.flops import kind_flops as kind_flops
from shardwright.cost.flops import op_flops as op_flops
