"""The binary format, and files that are not what they should be."""

from __future__ import annotations

import numpy as np
import pytest
from cifar_small import RECORDS, small_set

from examples.cifar10 import generated
from examples.cifar10.inputter import CifarInputter
from examples.cifar10.records import RECORD_BYTES, decode, encode
from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf


def test_a_record_is_a_label_and_three_planes():
    record = bytes([7]) + bytes(range(256)) * 12
    with tf.Graph().as_default(), tf.Session() as session:
        images, labels = session.run(decode(tf.constant([record, record])))
    assert labels.tolist() == [7, 7]
    assert images.shape == (2, 32, 32, 3)
    planes = np.frombuffer(record[1:], np.uint8).reshape(3, 32, 32)
    for plane in range(3):
        np.testing.assert_array_equal(images[1, :, :, plane], planes[plane])


def test_what_is_encoded_is_read_back():
    images, labels = generated.pictures(20, np.random.default_rng(0))
    data = encode(images, labels)
    assert len(data) == 20 * RECORD_BYTES
    records = [data[start : start + RECORD_BYTES] for start in range(0, len(data), RECORD_BYTES)]
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(decode(tf.constant(records)))
    np.testing.assert_array_equal(found.images, images)
    np.testing.assert_array_equal(found.labels, labels)


def test_a_label_above_nine_is_refused():
    record = bytes([10]) + bytes(RECORD_BYTES - 1)
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"label.*below 10\b.*CIFAR-10"),
    ):
        session.run(decode(tf.constant([record])))


@pytest.mark.parametrize(
    "size",
    [
        RECORD_BYTES * RECORDS - 1,
        *(pytest.param(size, marks=pytest.mark.heavy) for size in (0, 1, RECORD_BYTES * (RECORDS - 1))),
    ],
)
def test_a_cut_file_is_refused_by_name(tmp_path, size):
    data = small_set(tmp_path)
    path = tmp_path / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(RunError, match=rf"data_batch_3\.bin is cut short: .*\b{size} bytes.*\b122920\b"):
        data.training(4, seed=0).files()
    assert data.test(4).files() == [str(tmp_path / "test_batch.bin")]


def test_a_file_that_is_too_long_or_missing_is_refused(tmp_path):
    small_set(tmp_path)
    path = str(tmp_path / "test_batch.bin")
    with pytest.raises(RunError, match=r"test_batch\.bin is too long"):
        CifarInputter([path], RECORDS - 1, 4, is_training=False).files()
    with pytest.raises(UsageError, match=r"gone\.bin\b.*--download"):
        CifarInputter([str(tmp_path / "gone.bin")], RECORDS, 4, is_training=False).files()
