"""Commands that use a model, write into a bucket and are killed end well when they are repeated."""

from __future__ import annotations

import pytest
from faults.kill_points import Case, Killer, problems_in_states
from faults.killed_commands import REMOTE_MODELS, TRIED_STATES, Models
from faults.saved_states import Bucket

# Each repeat of an audit, a bulk job or a search takes seconds.
pytestmark = [pytest.mark.heavy, pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.promise("C12")
@pytest.mark.parametrize("command", REMOTE_MODELS)
def test_what_is_made_of_models_in_a_bucket(
    tensorflow_killer: Killer, killed_models: Models, saved_bucket: Bucket, command: str
) -> None:
    case = Case(tensorflow_killer, REMOTE_MODELS[command], killed_models, saved_bucket.url)
    assert problems_in_states(case, saved_bucket, TRIED_STATES) == []
