"""Commands that use a model and are killed at calls that change names or sync end well when they are repeated."""

from __future__ import annotations

import pytest
from faults.kill_points import Case, Killer, problems_in_states
from faults.killed_commands import MODELS, TRIED_STATES, Models

# Each repeat of an audit, a bulk job or a search takes seconds.
pytestmark = [pytest.mark.heavy, pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", MODELS)
def test_what_is_made_of_models(tensorflow_killer: Killer, killed_models: Models, command: str) -> None:
    assert problems_in_states(Case(tensorflow_killer, MODELS[command], killed_models), count=TRIED_STATES) == []
