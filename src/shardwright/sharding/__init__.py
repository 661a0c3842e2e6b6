"""How tensors and operators are cut: specs, factors, operator rules, strategies, reshards."""

from shardwright.sharding.collective import Collective as Collective
from shardwright.sharding.collective import CollectiveKind as CollectiveKind
from shardwright.sharding.factor import Combiner as Combiner
from shardwright.sharding.factor import Factor as Factor
from shardwright.sharding.factor import FactorKind as FactorKind
from shardwright.sharding.factor import OpRule as OpRule
from shardwright.sharding.factor import Window as Window
from shardwright.sharding.rule import rule_from_text as rule_from_text
from shardwright.sharding.spec import DimAxes as DimAxes
from shardwright.sharding.spec import Sharding as Sharding
from shardwright.sharding.strategy import Strategy as Strategy
