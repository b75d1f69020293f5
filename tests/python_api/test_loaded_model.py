"""What a loaded model refuses is said in the words of Python."""

from __future__ import annotations

import pathlib

import pytest
from golden_data import golden

import yt8m

DATA = str(golden("checkpoint_logistic/test.tfrecord"))


def test_a_prediction_is_refused_with_arguments_in_place_of_flags(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    def refuse(*_: object) -> None:
        raise yt8m.UsageError("--batch_size=7 and --cache do not fit; leave out --cache.")

    with yt8m.load(golden("run_format_1")) as model:
        for attribute, call in (("batches", model.predict), ("scores", model.predict), ("hidden", model.embeddings)):
            with monkeypatch.context() as changed:
                changed.setattr(model._scorer, attribute, refuse)
                with pytest.raises(yt8m.UsageError, match=r"^batch_size=7 and cache do not fit; leave out cache\.$"):
                    list(call(DATA))
        with pytest.raises(yt8m.UsageError, match=rf"^spans_from='{tmp_path}/nowhere': ") as refused:
            model.spans(DATA, spans_from=tmp_path / "nowhere")
    assert "--" not in str(refused.value).replace("`yt8m eval --spans`", "")
