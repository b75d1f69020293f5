"""Batches from files."""

from __future__ import annotations

import numpy as np
import pytest
from cifar_small import RECORDS, small_set, standardised, stored

from examples.cifar10.data import TRAIN_FILES
from yt8m.lazy import tf


def batches(inputter, count=None, batch_size=None):
    """`count` batches, or all there are."""
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        dataset = inputter.dataset(files, batch_size or inputter.batch_size)
        iterator = tf.data.make_initializable_iterator(dataset)
        following = iterator.get_next()
        session.run(iterator.initializer, {files: inputter.files()})
        while count is None or len(found) < count:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                break
    return found


def test_evaluation_reads_each_record_once_in_order(tmp_path):
    found = batches(small_set(tmp_path).test(batch_size=12))
    assert [len(batch.labels) for batch in found] == [12, 12, 12, 4]
    images, labels = stored(tmp_path, "test_batch.bin")
    np.testing.assert_array_equal(np.concatenate([batch.labels for batch in found]), labels)
    expected = standardised(images[:, 4:28, 4:28])
    np.testing.assert_allclose(np.concatenate([batch.images for batch in found]), expected, atol=1e-5)


def test_training_gives_whole_batches_without_end_and_each_record_once_a_pass(tmp_path):
    data = small_set(tmp_path)
    inputter = data.training(batch_size=8, seed=0)
    found = batches(inputter, count=60)
    assert {batch.images.shape for batch in found} == {(8, 24, 24, 3)}
    passed = np.concatenate([batch.labels for batch in found])
    written = np.concatenate([stored(tmp_path, name)[1] for name in TRAIN_FILES])
    for start in (0, 200):
        assert sorted(passed[start : start + 5 * RECORDS]) == sorted(written)
    assert passed[:200].tolist() != written.tolist()
    assert passed[:200].tolist() != passed[200:400].tolist()


@pytest.mark.heavy
def test_the_seed_decides_order_and_distortions(tmp_path):
    data = small_set(tmp_path)
    first, again, other = (batches(data.training(8, seed), count=5) for seed in (1, 1, 2))
    for one, two, three in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one.images, two.images)
        np.testing.assert_array_equal(one.labels, two.labels)
        assert np.abs(one.images - three.images).max() > 0.1
