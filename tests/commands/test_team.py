"""The link between the processes of an evaluation or inference; its two ends are in this process."""

from __future__ import annotations

import pytest
from clusters import free_addresses

from yt8m.commands import team
from yt8m.deploy.cluster import WORKER, ClusterConfig
from yt8m.errors import RunError, UsageError


@pytest.mark.parametrize(
    ("error", "words"),
    [(UsageError("no such data: x*"), "no such data: x*"), (KeyError("a slip"), "KeyError: 'a slip'")],
)
def test_the_chief_ends_with_the_words_of_a_worker_that_failed(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    """At once: neither is it waited for, nor does it keep the chief from ending."""
    monkeypatch.setattr(team, "LAST_ORDER_SECONDS", 1e6)
    addresses = tuple(free_addresses(2))
    chief, worker = (team.Team(ClusterConfig(addresses, (), role, 0), stall_timeout=1e6) for role in ("chief", WORKER))
    with chief:
        chief.send("an order")
        with pytest.raises(type(error)), worker:
            raise error
        with pytest.raises(RunError) as found:
            chief.collect()
    assert str(found.value) == f"the part of {chief.cluster.replica_name(1)}, 2 of 2, is missing: {words}"
