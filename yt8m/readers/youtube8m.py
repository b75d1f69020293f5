"""Reads the records of YouTube-8M, and chooses the reader of a run.

Video-level records have one vector per feature; frame-level records have one per feature and second. Frame-level
records are read as whole videos, as the rated segments of videos, or as all segments of videos.

The reader of a run is one of these, or the class that `--reader=package.module:Class` names. A user's own reader turns
records of another layout into a `Batch`; `BatchQueue` still handles files, shuffling, epochs and exact resume.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m import options, plug_ins
from yt8m.config.data_config import DataConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers import base, flat_frames, listed_labels, told_apart
from yt8m.readers.base import Reader
from yt8m.readers.flat_frames import Frames
from yt8m.records.data_format import usual_range
from yt8m.records.shards import SEGMENT_LISTS
from yt8m.registry import Catalogue
from yt8m.types import Batch


class YT8MAggregatedFeatureReader(Reader):
    """Reads video-level records, which are tf.train.Examples.

    Their features are `id` or `video_id` (bytes), `labels` (int64 list, may be missing), and for each of
    `feature_names` a float list of `feature_sizes[i]` values; or one string of `feature_sizes[i]` bytes, if
    `feature_ranges` has a range for it.
    """

    def prepare_serialized_examples(self, serialized: tf.Tensor) -> Batch:
        """Parses serialized records, string [B], into a batch of videos.

        Returns:
          A `Batch` with float32 [B, size] features, bool [B, C] labels and num_frames 1. Its computation fails with
          InvalidArgumentError, whose message has the video's id, on a feature that is missing or of another size or
          type, on NaN, infinite or too large values (with the nan_policy `refuse`), and on a label outside of 0..C-1.
        """
        ids = base.parse_ids(serialized)
        types = {name: tf.string if self.range_of(name) else tf.float32 for name in self.feature_names}
        features = {name: tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64) for name, kind in types.items()}
        labels = {"labels": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)}
        parsed = tf.io.parse_example(serialized, {**features, **labels}, example_names=base.valid_utf8(ids))

        def feature(name: str, size: int) -> tf.Tensor:
            if bounds := self.range_of(name):
                return base.dequantize(base.fixed_bytes(parsed[name], name, size, ids), max(bounds), min(bounds))
            values = base.fixed_size(parsed[name], name, size, ids)
            return base.only_finite(self, values, name, lambda row: tf.gather(ids, row))

        return Batch(
            video_ids=ids,
            features=tuple(map(feature, self.feature_names, self.feature_sizes)),
            num_frames=tf.ones_like(ids, tf.int32),
            **listed_labels.fields_of_labels(parsed["labels"], ids, self.num_classes, self.lists_labels),
        )

    def parse_labels(self, serialized: tf.Tensor) -> tf.Tensor:
        """The labels of N serialized records, bool [N, C]; the features are skipped."""
        return base.parse_labels(serialized, self.num_classes)

    def video_matrix(self, batch: Batch) -> tf.Tensor:
        """The features, concatenated but not normalized: float32 [B, D]."""
        return base.join_features(batch)


class YT8MFrameFeatureReader(Reader):
    """Reads frame-level records, which are tf.train.SequenceExamples.

    Their context has `id` or `video_id`, and `labels` (may be missing). Each of `feature_names` is a feature list with
    one entry per frame: a string of bytes, or floats if the name ends in `/floats`, as MediaPipe writes it
    (`RGB/feature/floats`). If `feature_ranges` is given, it alone decides which features are stored as floats.

    With `segment_labels`, an example is one rated segment: `segment_size` frames from its start, with labels
    and label weights from the context lists `segment_start_times`, `segment_labels`, `segment_scores`. In the ranges
    from `annotated_start_times` to `annotated_end_times`, every segment is an example, and every class is rated.

    Attributes:
      max_frames: largest number of frames that are read of a video, from its start. Rated segments are read even after
        them.
      segment_labels: whether the examples are rated segments, rather than videos.
      segment_size: number of frames of a segment.
      segment_context: number of frames before and after a segment that its example has too. At the ends of a video its
        first and its last frame are repeated.
      film_mean: whether a batch of segments has `film_means`: for each segment, the mean of the first `max_frames`
        frames of its whole video, which is called the film of the segment.
    """

    film_mean: bool = False

    def __init__(
        self,
        num_classes: int = 3862,
        feature_sizes: Sequence[int] = (1024, 128),
        feature_names: Sequence[str] = ("rgb", "audio"),
        max_frames: int = 300,
        segment_labels: bool = False,
        segment_size: int = 5,
        nan_policy: str = "refuse",
        feature_ranges: Sequence[Sequence[float]] = (),
        segment_context: int = 0,
    ) -> None:
        super().__init__(num_classes, feature_sizes, feature_names, nan_policy, feature_ranges)
        self.segment_context = segment_context
        self.max_frames = base.at_least_one("max_frames", max_frames)
        self.segment_labels = segment_labels
        self.segment_size = base.at_least_one("segment_size", segment_size)

    @property
    def segment_frames(self) -> int:
        """Number of frames of an example that is a segment, with those before and after it."""
        return self.segment_size + 2 * self.segment_context

    @property
    def keeps_few_frames(self) -> bool:
        """Whether a batch has only a small part of the parsed frames, as with rated segments."""
        return self.segment_labels

    def prepare_serialized_examples(self, serialized: tf.Tensor) -> Batch:
        """Parses serialized records, string [N], into a batch of videos or of segments.

        Returns:
          A `Batch` of B = N videos, or of all rated segments of the N videos (B may be 0). Features are uint8
          [B, T, size] (float32 for floats, and for bytes of another range than -2..2), 0 past num_frames; T is the
          number of frames of the longest video, at least 1 and at most max_frames; for segments it is segment_size.
          The computation of the batch fails with InvalidArgumentError, whose message has the video's id, on a feature
          that is missing or of another size or type, on features with unequal numbers of frames, on floats that are
          NaN, infinite or too large (with the nan_policy `refuse`), on labels outside of 0..C-1, and on ratings that
          `flat_frames.find_segments` refuses.
        """
        ids = base.parse_ids(serialized)
        types = {name: tf.float32 if self._has_floats(name) else tf.string for name in self.feature_names}
        # The features are parsed into ragged tensors, because dense ones would be padded to the longest record.
        in_lists = {name: tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64) for name, kind in types.items()}
        context, lists, _ = tf.io.parse_sequence_example(
            serialized, self._context_features(), in_lists, example_names=base.valid_utf8(ids)
        )
        frames = [
            flat_frames.flat_frames(self, lists[name], name, size, ids)
            for name, size in zip(self.feature_names, self.feature_sizes, strict=True)
        ]
        lengths = flat_frames.equal_lengths(frames, self.feature_names, ids, serialized)
        if self.segment_labels:
            return self.segments_of(context, frames, lengths, ids)
        return told_apart.from_cells(self._videos(context, frames, lengths, ids), self)

    def _has_floats(self, name: str) -> bool:
        """Whether a feature is stored as floats, rather than bytes."""
        return not (self.range_of(name) if self.feature_ranges else usual_range("frame", name))

    def _context_features(self) -> dict[str, Any]:
        """{name: what TensorFlow's parser needs to know about it} of the lists in the context: labels and ratings."""
        names = {"labels": "int64", **(SEGMENT_LISTS if self.segment_labels else {})}
        return {
            name: tf.io.RaggedFeature(tf.as_dtype(dtype), row_splits_dtype=tf.int64) for name, dtype in names.items()
        }

    def _videos(self, context: Mapping[str, Any], features: list[Frames], lengths: tf.Tensor, ids: tf.Tensor) -> Batch:
        """The batch of N parsed videos; the arguments are those of `segments_of`."""
        num_frames = tf.minimum(lengths, self.max_frames)
        longest = tf.maximum(tf.reduce_max(tf.concat([num_frames, [1]], axis=0)), 1)
        return Batch(
            video_ids=ids,
            features=tuple(feature.padded(lengths, longest) for feature in features),
            num_frames=tf.cast(num_frames, tf.int32),
            **listed_labels.fields_of_labels(context["labels"], ids, self.num_classes, self.lists_labels),
        )

    def segments_of(
        self, context: Mapping[str, Any], features: list[Frames], lengths: tf.Tensor, ids: tf.Tensor
    ) -> Batch:
        """The batch of the rated segments of N parsed videos.

        Args:
          context: {name: list of each video, [N, (values)]} of `labels` and `SEGMENT_LISTS`.
          features: the frames of each feature.
          lengths: int64 [N], the number of frames of each video.
          ids: string [N], the ids of the videos.
        """
        grid = flat_frames.SegmentGrid(self.segment_size, lengths)
        lists = {name: context[name] for name in SEGMENT_LISTS}
        segments = flat_frames.find_segments(lists, ids, self.num_classes, grid)
        video_labels = base.dense_labels(context["labels"], ids, self.num_classes)
        ends = tf.gather(lengths, segments.rows)
        frames, exists = flat_frames.frame_indices(
            *(segments.rows, segments.starts, ends, lengths, self.segment_frames), self.segment_context
        )
        return Batch(
            video_ids=tf.gather(ids, segments.rows),
            features=tuple(feature.gathered(frames, exists, self.segment_frames) for feature in features),
            num_frames=tf.reduce_sum(tf.cast(exists, tf.int32), axis=1),
            labels=segments.labels,
            label_weights=segments.label_weights,
            video_labels=tf.gather(video_labels, segments.rows),
            film_means=self._film_means(features, lengths, segments.rows),
        )

    def _film_means(self, features: list[Frames], lengths: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, ...] | None:
        """The mean of the frames of each segment's video, float32 [R, size] of each feature; None without `film_mean`.

        Args:
          lengths: int64 [N], the number of frames of each video.
          rows: int64 [R], the index of the video of each segment.
        """
        if not self.film_mean:
            return None
        return tuple(tf.gather(feature.means(lengths, self.max_frames), rows) for feature in features)

    def parse_labels(self, serialized: tf.Tensor) -> tf.Tensor:
        """The labels of N serialized records, bool [N, C]; the features are skipped."""
        return base.parse_labels(serialized, self.num_classes)

    def video_matrix(self, batch: Batch) -> tf.Tensor:
        """The concatenated features, dequantized: float32 [B, max_frames or segment_size, D], 0 past num_frames."""
        size = self.segment_frames if self.segment_labels else self.max_frames
        return base.resize_axis(base.join_features(batch), 1, size)


class EverySegmentReader(YT8MFrameFeatureReader):
    """Reads all segments of each video, rated or not, for segment inference.

    Segments of `seconds` frames follow one another from the start of the video to its end, or to frame `max_frames`.
    The last one of a video may be shorter, as in YouTube-8M's published code. `video_ids` of a batch are `video:start`,
    with the start in seconds. A video without frames has no segments.

    Attributes:
      seconds: length of a segment, and number of seconds between the starts of two segments; a frame is a second.
      context: number of frames before and after a segment that are added to it; fewer at the ends of the video.
      repeats_ends: whether the first and the last frame of the video stand in the places of frames outside of it, as in
        the training of a model that sees the neighbours of a segment.
      shifts: numbers of frames, which may be negative. For each segment, one example is read for each shift, all with
        the id of the segment. An example begins that number of frames after the start of its segment, but at the first
        or the last frame of the video if that would be outside of the video.
    """

    def __init__(
        self,
        num_classes: int = 3862,
        feature_sizes: Sequence[int] = (1024, 128),
        feature_names: Sequence[str] = ("rgb", "audio"),
        max_frames: int = 300,
        segment_size: int = 5,
        context: int = 0,
        nan_policy: str = "refuse",
        feature_ranges: Sequence[Sequence[float]] = (),
        shifts: Sequence[int] = (0,),
        repeats_ends: bool = False,
    ) -> None:
        self.seconds, self.context = base.at_least_one("segment_size", segment_size), context
        self.repeats_ends = repeats_ends
        self.shifts = tuple(shifts)
        window = segment_size + 2 * context
        super().__init__(
            num_classes, feature_sizes, feature_names, max_frames, True, window, nan_policy, feature_ranges
        )

    @property
    def keeps_few_frames(self) -> bool:
        """False: every frame is in a segment."""
        return False

    def _context_features(self) -> dict[str, Any]:
        """No lists: inference needs no labels and no ratings."""
        return {}

    def segments_of(
        self, context: Mapping[str, Any], features: list[Frames], lengths: tf.Tensor, ids: tf.Tensor
    ) -> Batch:
        """The batch of all segments of N parsed videos, with labels 0; `context` is not used.

        The other arguments are those of `YT8MFrameFeatureReader.segments_of`.
        """
        usable = tf.minimum(lengths, self.max_frames)
        counts = -(-usable // self.seconds)
        rows = tf.repeat(tf.range(tf.size(ids, out_type=tf.int64)), counts)
        # The index of each segment in its video.
        indices = tf.range(tf.size(rows, out_type=tf.int64)) - tf.gather(tf.cumsum(counts, exclusive=True), rows)
        rows, starts = tf.repeat(rows, len(self.shifts)), tf.repeat(indices * self.seconds, len(self.shifts))
        shifts = tf.tile(tf.constant(self.shifts, tf.int64), [tf.size(indices)])
        ends = tf.gather(usable, rows)
        shifted = tf.clip_by_value(starts + shifts, 0, ends - 1)
        if self.repeats_ends:
            frames, exists = flat_frames.frame_indices(rows, shifted, ends, lengths, self.segment_size, self.context)
            first, end = shifted, shifted + self.segment_size
        else:
            first = tf.maximum(shifted - self.context, 0)
            end = tf.minimum(shifted + self.seconds + self.context, ends)
            frames, exists = flat_frames.frame_indices(rows, first, end, lengths, self.segment_size)
        return Batch(
            video_ids=tf.strings.join([tf.gather(ids, rows), tf.as_string(starts)], ":"),
            features=tuple(feature.gathered(frames, exists, self.segment_size) for feature in features),
            num_frames=tf.cast(end - first, tf.int32),
            labels=tf.zeros([tf.size(rows), self.num_classes], tf.bool),
            film_means=self._film_means(features, lengths, rows),
        )


READERS = (YT8MAggregatedFeatureReader, YT8MFrameFeatureReader, EverySegmentReader)

# The constructor of a reader must have the parameters `_REQUIRED`, and may have the other `_ARGUMENTS`, also those of
# frames alone that shape the model too.
_ARGUMENTS = options.paths_where(DataConfig, is_reader_argument=True)
_REQUIRED = options.paths_where(DataConfig, is_reader_argument=True, shapes="variables", needs="")
_readers = Catalogue("reader", passed=_ARGUMENTS, group="yt8m.readers")
names_and_packages = _readers.names_and_packages

# The methods that the class of a user's reader must have.
_METHODS = ("prepare_serialized_examples", "video_matrix")


def reader_for(data: DataConfig) -> Reader:
    """Makes the reader that a config chooses.

    Args:
      data: the config; `reader`, `frame_features` and `film_mean` choose the reader, and others become its arguments.

    Raises:
      UsageError: the user's class cannot be loaded, is not a reader, or does not accept the arguments.
    """
    if data.reader:
        return _make_own_reader(data)
    cls: Any = YT8MFrameFeatureReader if data.frame_features else YT8MAggregatedFeatureReader
    names = inspect.signature(cls).parameters.keys() & _ARGUMENTS
    reader: Reader = cls(**{name: getattr(data, name) for name in names})
    if isinstance(reader, YT8MFrameFeatureReader):
        reader.film_mean = data.film_mean
    return reader


def _others() -> str:
    names = ", ".join(_readers.names())
    return f", or one of an installed package ({names})" if names else ""


def own_reader_class(name: str) -> Any:
    """Loads the reader class of a user.

    Args:
      name: `package.module:Class`.

    Returns:
      The class; it is derived from `Reader`, or has the same methods.

    Raises:
      UsageError: the class cannot be loaded, is not a class, or lacks a method; or the name comes from a run that is
        not trusted.
    """
    if ":" not in name and name not in _readers.names() and not plug_ins.is_expected("reader", name):
        raise UsageError(
            f"--reader={name}: expected package.module:Class, the name of your own reader{_others()}. Leave the "
            "flag out to read records of YouTube-8M's layout."
        )
    cls = _readers.get(name)
    missing = [method for method in _METHODS if not callable(getattr(cls, method, None))]
    missing += sorted(getattr(cls, "__abstractmethods__", ()))
    if not isinstance(cls, type) or missing:
        raise UsageError(
            f"--reader={name}: expected a class derived from yt8m.readers.Reader, or one with the same members; "
            f"{cls!r} lacks {', '.join(missing) or 'a constructor'}."
        )
    return cls


def _make_own_reader(data: DataConfig) -> Reader:
    """Makes an instance of the user's class that --reader names, and checks the batch that it returns."""
    if data.film_mean:
        raise UsageError(f"--film_mean needs records of YouTube-8M's layout; leave it or --reader={data.reader} out.")
    cls = own_reader_class(data.reader)
    signature = inspect.signature(cls)
    values: dict[str, Any] = {}
    for name in _ARGUMENTS:
        value = getattr(data, name)
        if name in _REQUIRED or name in signature.parameters:
            values[name] = value
        elif value != DataConfig.__dataclass_fields__[name].default:
            raise UsageError(
                f"--{name}={value}: the constructor of --reader={data.reader} has no parameter {name}. "
                "Leave the flag out, or add the parameter."
            )
    try:
        signature.bind(**values)
    except TypeError as error:
        raise UsageError(f"--reader={data.reader}: cannot be called with {', '.join(values)}: {error}.") from error
    reader: Reader = cls(**values)
    _check_batch(reader, data)
    return reader


def _check_batch(reader: Any, data: DataConfig) -> None:
    """Raises a `UsageError` if a user's reader lacks an attribute, fails, or returns an unusable `Batch`.

    It builds a graph with the reader, so that a run fails before it writes files.
    """
    missing = [name for name in _REQUIRED if not hasattr(reader, name)]
    if missing:
        raise UsageError(f"--reader={data.reader}: its instances lack {', '.join(missing)}; set them in __init__.")
    try:
        with tf.Graph().as_default():
            batch = reader.prepare_serialized_examples(tf.placeholder(tf.string, [None]))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"--reader={data.reader}: prepare_serialized_examples fails: {problem}") from error
    frames = [None] if data.frame_features else []
    expected = [[None, *frames, size] for size in data.feature_sizes]
    shapes = [feature.shape.as_list() if feature.shape.rank else None for feature in getattr(batch, "features", ())]
    if not isinstance(batch, Batch) or not _has_shapes(shapes, expected):
        raise UsageError(
            f"--reader={data.reader}: prepare_serialized_examples must return a yt8m.types.Batch with features of "
            f"the shapes {expected}, as --feature_sizes and --frame_features say; it returned a "
            f"{type(batch).__name__} with features of the shapes {shapes}. Set unknown shapes by tf.ensure_shape."
        )


def _has_shapes(shapes: list[Any], expected: list[list[int | None]]) -> bool:
    """Whether the ranks and the last dimensions of `shapes` are those of `expected`; other dimensions may differ.

    A shape of unknown rank, None, is not as expected.
    """
    ranks_and_sizes = [(len(shape), shape[-1]) for shape in shapes if shape]
    return ranks_and_sizes == [(len(shape), shape[-1]) for shape in expected]
