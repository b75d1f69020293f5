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


def test_records_and_batches_say_in_one_line_what_they_are() -> None:
    records = yt8m.read_records(DATA, batch_size=4)
    assert repr(records) == "<records of 1 files: video level, mean_audio of 8 and mean_rgb of 16, 3862 classes>"
    batch = next(iter(records))
    assert repr(batch) == ("<batch of 4 videos: mean_audio float32 [4, 8], mean_rgb float32 [4, 16]; labels [4, 3862]>")


def test_labels_beside_records_are_refused() -> None:
    with yt8m.load(golden("run_format_1")) as model, pytest.raises(yt8m.UsageError, match="labels of their own"):
        model.evaluate(DATA, [["a"]])
