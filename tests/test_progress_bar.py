"""A bar is shown only where it does no harm."""

from __future__ import annotations

import sys
import threading

import pytest

from yt8m import progress_bar


class ZMQInteractiveShell:
    """Stands for the shell of a Jupyter kernel, which rich and yt8m know by its name."""


class _IPython:
    @staticmethod
    def get_ipython() -> ZMQInteractiveShell:
        return ZMQInteractiveShell()


def test_a_bar_is_shown_in_a_notebook_and_in_the_main_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets")
    assert not progress_bar.shows_bar()
    assert list(progress_bar.with_bar(iter([1, 2]), "counting")) == [1, 2]
    monkeypatch.setitem(sys.modules, "IPython", _IPython)
    assert progress_bar.shows_bar()
    shown: list[bool] = []
    thread = threading.Thread(target=lambda: shown.append(progress_bar.shows_bar()))
    thread.start()
    thread.join()
    assert shown == [False]
