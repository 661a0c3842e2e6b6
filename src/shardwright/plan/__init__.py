"""The plan: one frozen record of what runs where, and what keeps it honest.

Read ``record.py`` for the record, ``serialize.py`` and ``parse.py`` for its JSON
form, ``verify.py`` for the rules it obeys on its graph and ``diff.py`` for what two plans do
differently.
"""

from shardwright.plan.diff import diff as diff
from shardwright.plan.parse import from_json as from_json
from shardwright.plan.record import SCHEMA_VERSION as SCHEMA_VERSION
from shardwright.plan.record import Fallback as Fallback
from shardwright.plan.record import OpDecision as OpDecision
from shardwright.plan.record import Plan as Plan
from shardwright.plan.record import PlannedCollective as PlannedCollective
from shardwright.plan.record import Provenance as Provenance
from shardwright.plan.record import Route as Route
from shardwright.plan.record import Stage as Stage
from shardwright.plan.record import TensorDecision as TensorDecision
from shardwright.plan.serialize import load as load
from shardwright.plan.serialize import save as save
from shardwright.plan.serialize import to_json as to_json
from shardwright.plan.verify import verify_plan as verify_plan
