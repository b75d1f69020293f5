"""What follows from a search for the training of the chosen candidate."""

from __future__ import annotations

import pytest

from yt8m import deploy
from yt8m.config.search_config import BATCH, ModelSearchConfig
from yt8m.config.train_config import DeviceConfig, TrainConfig
from yt8m.training.search.candidates import Candidate
from yt8m.training.search.outcome import SearchFacts, _steps, _values


@pytest.mark.parametrize("compared", [100, 20_100])
def test_a_search_on_a_sample_trains_as_many_epochs_on_all(compared: int) -> None:
    """However many videos the candidates were compared on: those of folds are trained on too."""
    facts = SearchFacts(38_000, 20_000, True, "validate", compared, 60.0)
    chosen = {"steps": 1000, "seconds": 4.0, "folds": 1}
    assert _steps(chosen, facts, 1e-3) == 1900
    assert _steps(chosen, facts._replace(is_sample=False), 1e-3) == 1000
    assert _steps(chosen, facts, 1.0) == 1000, "the budget has no room for more"
    assert 1000 < _steps(chosen, facts._replace(seconds_left=10.0), 1e-3) < 1900, "the clock has room for fewer"
    assert _steps(chosen, facts._replace(seconds_left=1.0), 1e-3) == 1000


@pytest.mark.parametrize(("gpus", "rows"), [(0, 16), (1, 64), (2, 32), (8, 16)])
def test_the_batch_of_the_choice_is_divided_among_the_towers_that_there_will_be(
    monkeypatch: pytest.MonkeyPatch, gpus: int, rows: int
) -> None:
    monkeypatch.setattr(deploy, "count_gpus", lambda: gpus)
    config = TrainConfig(devices=DeviceConfig(num_gpu=4), search=ModelSearchConfig(free=(BATCH,)))
    facts = SearchFacts(1000, 1000, False, "", 100, 60.0)
    candidate = Candidate("LogisticModel", "standardize", 0.01, 0.01)
    values = {name: value for name, value, _ in _values(config, candidate, 64, 100, facts, False)}
    assert values[BATCH] == rows
