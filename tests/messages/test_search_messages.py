"""The words of every refusal of a constraint."""

from __future__ import annotations

import pytest

from shardwright.cluster import Mesh
from shardwright.cluster.parse import topology
from shardwright.errors import ConstraintError
from shardwright.search.constraints import Constraint
from shardwright.search.find import Question
from shardwright.sharding import Sharding
from tests.unit.search.subjects import planner_of

MESH = Mesh.of(dp=2, tp=4)


def fix(*pairs: tuple[str, Sharding], method: str = "auto") -> None:
    constraints = tuple(Constraint(pattern=p, sharding=s) for p, s in pairs)
    question = Question(method=method, meshes=(MESH,), constraints=constraints)
    planner_of("mlp").find(topology("8xH100"), question)


CASES = [
    (
        [("state.params.upp", Sharding.of("dp", None))],
        'constraint "state.params.upp": [dp, -] names no input of the step\n'
        '  try    did you mean "state.params.up" or "state.params.up_bias" or '
        '"state.params.down"?',
    ),
    (
        [("state.params.up", Sharding.of("tpp", None))],
        'constraint "state.params.up": [tpp, -] names axis "tpp", which the mesh dp=2,tp=4 does '
        'not have\n  try    did you mean "tp"?',
    ),
    (
        [("state.params.up", Sharding.of("tp", "tp"))],
        'constraint "state.params.up": [tp, tp] cuts two dims by one axis',
    ),
    (
        [("state.params.up", Sharding.of("tp"))],
        'constraint "state.params.up": [tp] has 1 dims, the tensor has 2\n'
        "  where  state.params.up float32[32, 64]",
    ),
]


@pytest.mark.parametrize(("pairs", "text"), CASES)
def test_constraint_texts(pairs: list[tuple[str, Sharding]], text: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        fix(*pairs)
    assert str(caught.value) == text
    assert caught.value.exit_code == 4


def test_a_clash_names_both_constraints() -> None:
    with pytest.raises(ConstraintError) as caught:
        fix(
            ("state.params.up", Sharding.of("tp", None)),
            ("state.params.u?", Sharding.of(None, "tp")),
        )
    assert str(caught.value) == (
        'constraint "state.params.u?": [-, tp] clashes with constraint "state.params.up": '
        "[tp, -]: nothing satisfies both\n"
        "  where  state.params.up float32[32, 64]\n"
        "  try    drop one of the two, or fix them to one sharding (tied state shares one)"
    )


def test_a_constraint_against_a_recipe_says_so() -> None:
    with pytest.raises(ConstraintError, match="clashes with the method asked for"):
        fix(("state.params.up", Sharding.of("tp", None)), method="data-parallel")
