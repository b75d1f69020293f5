"""Records encoded by TensorFlow's own protos, and readers that parse them in a session."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yt8m.lazy import tf
from yt8m.readers import Reader


def feature(values: Any) -> Any:
    """A Feature from bytes, integers or floats; the type of the first value decides."""
    values = list(values)
    if not values:
        return tf.train.Feature()
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], (int, np.integer)):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _features(values: Mapping[str, Any]) -> Any:
    return tf.train.Features(feature={name: feature(value) for name, value in values.items()})


def video_record(**values: Any) -> bytes:
    """A serialised Example; a feature whose value is None is left out."""
    given_values = {name: value for name, value in values.items() if value is not None}
    return tf.train.Example(features=_features(given_values)).SerializeToString()


def frame_record(context: Mapping[str, Any], frames: Mapping[str, Sequence[Any]]) -> bytes:
    """A serialised SequenceExample; a frame that is a uint8 array becomes one bytes value, any other a list."""
    lists = {}
    for name, rows in frames.items():
        steps = [[row.tobytes()] if getattr(row, "dtype", None) == np.uint8 else row for row in rows]
        lists[name] = tf.train.FeatureList(feature=[feature(step) for step in steps])
    record = tf.train.SequenceExample(
        context=_features(context), feature_lists=tf.train.FeatureLists(feature_list=lists)
    )
    return record.SerializeToString()


def write_shard(path: pathlib.Path, records: Sequence[bytes]) -> str:
    """Writes a TFRecord file; returns its path."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def read_shard(path: pathlib.Path) -> list[bytes]:
    """All records of a TFRecord file."""
    return list(tf.io.tf_record_iterator(str(path)))


class Parsed:
    """A reader in a session. A call with serialised records returns {name: value} of the parsed batch."""

    def __init__(self, reader: Reader) -> None:
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._records = tf.placeholder(tf.string, [None])
            batch = reader.prepare_serialized_examples(self._records)
            self._fetches = {name: value for name, value in batch._asdict().items() if value is not None}
            self._fetches["video_matrix"] = reader.video_matrix(batch)
        self._session = tf.Session(graph=self._graph)

    def __call__(self, records: Sequence[bytes]) -> dict[str, Any]:
        return self._session.run(self._fetches, {self._records: list(records)})

    def __enter__(self) -> Parsed:
        return self

    def __exit__(self, *unused: object) -> None:
        self._session.close()

    def close(self) -> None:
        self._session.close()

    def error_of(self, records: Sequence[bytes]) -> str:
        """The message of the error that the reader raises for the records; fails if it accepts them."""
        try:
            self(records)
        except tf.errors.InvalidArgumentError as error:
            return str(error.message)
        raise AssertionError("the records were accepted")


def error_of(reader: Reader, records: Sequence[bytes]) -> str:
    """The message of the error that a reader raises for the records; fails if it accepts them."""
    with Parsed(reader) as parsed:
        return parsed.error_of(records)
