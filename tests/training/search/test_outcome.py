"""What follows from a search for the training of the chosen candidate."""

from __future__ import annotations

import pytest

from yt8m.training.search.outcome import SearchFacts, _steps


@pytest.mark.parametrize("compared", [100, 20_100])
def test_a_search_on_a_sample_trains_as_many_epochs_on_all(compared: int) -> None:
    """However many videos the candidates were compared on: those of folds are trained on too."""
    facts = SearchFacts(38_000, 20_000, True, "validate", compared, 60.0)
    assert _steps(1000, facts, 1e-3) == 1900
    assert _steps(1000, facts._replace(is_sample=False), 1e-3) == 1000
    assert _steps(1000, facts, 1.0) == 1000, "the budget has no room for more"
