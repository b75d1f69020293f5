"""Computes the features of videos. A batch has pictures, clips or windows of sound, which may be of several videos.

The form of an extractor, an object of `Pictures`, `Clips` or `Sound`, says which of these the extractor takes, and how
large they are.

The batches and their order depend only on the videos and on the flags, not on the speed of decoding. So a shard that is
extracted again has the same bytes.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import plug_ins
from yt8m.datasets.extract import weights
from yt8m.errors import RunError
from yt8m.extractors import Extractor
from yt8m.extractors.base import (
    Clips,
    Compute,
    Form,
    OpenedExtractor,
    Pictures,
    Sound,
    blank,
    refuse_settings_of_other_forms,
)
from yt8m.extractors.decoder_messages import UnusableDecoderError
from yt8m.extractors.decoder_pool import DecoderPool
from yt8m.extractors.decoding import DecodeError, Message, Request
from yt8m.extractors.sampling import clip_of_row
from yt8m.extractors.sampling_rules import EARLIER, RULES, WHOLE
from yt8m.records import shards
from yt8m.records.data_format import Range
from yt8m.storage import copies, is_remote
from yt8m.types import Closing

_BATCH_BYTES = 64 << 20  # largest size of the pictures or clips of a batch
# {kind of a decoder's message: class that describes such inputs of an extractor}
_FORMS = {"picture": Pictures, "clip": Clips, "sound": Sound}
_MOST_WAITING = 64  # number of videos that may wait for a batch to fill; if more wait, all batches are computed


class ChosenExtractor(NamedTuple):
    """An extractor that the user chose."""

    name: str
    extractor: Extractor


class LocatedExtractor(NamedTuple):
    """An extractor whose weights are on this machine."""

    name: str
    extractor: Extractor
    weights: weights.Weights


def locate(chosen: Iterable[ChosenExtractor]) -> list[LocatedExtractor]:
    """Finds the weights of the extractors; fetches those that are neither given nor cached, as `weights.find` does."""
    return [LocatedExtractor(name, extractor, weights.find(extractor, name)) for name, extractor in chosen]


class Clip(NamedTuple):
    """A video, or a part of one.

    Attributes:
      path: path of the video, local or gs://.
      start, end: the limits of the part in seconds; `end` is None for the end of the video.
    """

    path: str
    start: float = 0.0
    end: float | None = None


class Features(NamedTuple):
    """The features of one video.

    Attributes:
      arrays: float32 [rows, size] for each extractor; empty if the video is bad.
      seconds: length of the decoded part in seconds.
      bad: why the video has no features; empty if it has features.
    """

    arrays: Sequence[NDArray[np.float32]]
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    bad: str = ""


class Settings(NamedTuple):
    """The settings that determine the features, besides the extractors.

    Attributes:
      per_second: frames per second.
      max_frames: the largest number of frames of a video; later frames are left out.
      batch: number of pictures, clips or windows that an extractor gets at once.
      rule: the rule by which a video becomes rows, see `sampling_rules`.
      max_bad_packets: number of packets of a video that may be left out because they are damaged.
    """

    per_second: float = 1.0
    max_frames: int = 300
    batch: int = 32
    rule: str = WHOLE
    max_bad_packets: int = 0


class Computer(Closing):
    """Opens the extractors and computes features with them. Use it in a `with` block.

    Args:
      is_new: True if the user chose the settings of the extractors for this call, so that a setting without effect is
        refused; False if they were chosen when the training data of a model were made.
    """

    def __init__(self, located: Sequence[LocatedExtractor], settings: Settings, *, is_new: bool = True) -> None:
        self._extractors, self._settings = [each.extractor for each in located], settings
        with contextlib.ExitStack() as stack:
            self._computes: list[Compute] = [
                stack.enter_context(each.extractor.open(each.weights.paths)) for each in located
            ]
            self._forms = [
                compute.form if isinstance(compute, OpenedExtractor) else extractor.form
                for extractor, compute in zip(self._extractors, self._computes, strict=True)
            ]
            # The number of values of a feature is known only after an extractor has computed the feature once.
            blanks = map(blank, self._forms)
            self.sizes = [compute(values).shape[1] for compute, values in zip(self._computes, blanks, strict=True)]
            if is_new:
                refuse_settings_of_other_forms(self._extractors, self._forms)
            self._stack = stack.pop_all()
        forms = list(dict.fromkeys(self._forms))
        self._forms_by_kind: dict[str, list[Any]] = {
            kind: [form for form in forms if isinstance(form, cls)] for kind, cls in _FORMS.items()
        }

    def close(self) -> None:
        """Closes the extractors."""
        self._stack.close()

    def features(self, clips: Sequence[Clip], pool: DecoderPool, threads: int = 1) -> Iterator[Features]:
        """Yields the features of each clip, in order."""
        batches = _Batches(self._extractors, self._computes, self.sizes, self._settings)
        waiting_videos: deque[_Video] = deque()
        for video in self._decode_clips(clips, pool, threads, batches):
            waiting_videos.append(video)
            if len(waiting_videos) > _MOST_WAITING:
                batches.flush()
            while waiting_videos and not waiting_videos[0].pending:
                yield waiting_videos.popleft().features(self._settings, self._extractors, self._forms)
        batches.flush()
        for video in waiting_videos:
            yield video.features(self._settings, self._extractors, self._forms)

    def _decode_clips(
        self, clips: Sequence[Clip], pool: DecoderPool, threads: int, batches: _Batches
    ) -> Iterator[_Video]:
        """Decodes the clips; yields a `_Video` for each, in order, when all its pictures and windows are in `batches`.

        A file in a bucket is fetched before it is decoded, and removed from this machine afterwards. If a file cannot
        be fetched or decoded, the attribute `bad` of its `_Video` says why.
        """
        unreadable: dict[int, str] = {}
        requested: deque[int] = deque()

        def requests() -> Iterator[Request]:
            for number, clip in enumerate(clips):
                try:
                    path = copies.file_copy(clip.path)
                except RunError as error:
                    unreadable[number] = str(error)
                    continue
                requested.append(number)
                yield self._request(clip, path, threads)

        next_number = 0  # of the first clip for which no `_Video` was yielded
        for decoding in pool.decode(requests()):
            number = requested.popleft()
            for other in range(next_number, number):
                yield _Video(self.sizes, unreadable[other])
            next_number = number + 1
            video = _Video(self.sizes)
            try:
                for message in decoding.messages():
                    self._add_message(video, message, batches)
            except UnusableDecoderError:  # it would be the same for every video
                raise
            except DecodeError as error:
                video.bad = str(error)
            yield video
            if is_remote(clips[number].path):
                copies.forget(clips[number].path)
        for other in range(next_number, len(clips)):
            yield _Video(self.sizes, unreadable[other])

    def _request(self, clip: Clip, path: str, threads: int) -> Request:
        """The request to decode a clip."""
        settings = self._settings
        pictures, clips, sounds = (tuple(self._forms_by_kind[kind]) for kind in ("picture", "clip", "sound"))
        scalings = tuple(form.scaling for form in pictures)
        limits = (settings.per_second, settings.max_frames, clip.start, clip.end)
        return Request(path, *limits, scalings, sounds, threads, clips, settings.rule, settings.max_bad_packets)

    def _add_message(self, video: _Video, message: Message, batches: _Batches) -> None:
        """Adds the pictures or windows of a message to the batches of all extractors that take this form."""
        if message.kind == "end":
            video.summary = dict(message.details or {})
            return
        if message.values is None:
            return
        form = self._forms_by_kind[message.kind][message.form_index]
        rows = message.values if message.kind == "sound" else [message.values]
        for index in (index for index, extractor_form in enumerate(self._forms) if extractor_form == form):
            for row, values in enumerate(rows, message.row):
                batches.add(video, index, row, values)


class _Video:
    """A video during the computation of its features.

    Args:
      bad: why the video has no features; empty if it is good.

    Attributes:
      summary: the number of frames, the seconds and the notes that the decoder reports at the end of the video.
    """

    def __init__(self, sizes: Sequence[int], bad: str = "") -> None:
        self._sizes = sizes
        self.rows: list[dict[int, NDArray[np.float32]]] = [{} for _ in sizes]
        self.pending, self.bad = 0, bad
        self.summary: dict[str, Any] = {}

    def features(self, settings: Settings, extractors: Sequence[Extractor], forms: Sequence[Form]) -> Features:
        """The features of the video, with the same number of rows from each extractor."""
        if self.bad:
            return Features((), bad=self.bad)
        count = int(self.summary["rows"])
        arrays = [self._align_rows(index, count, settings, form) for index, form in enumerate(forms)]
        for extractor, array in zip(extractors, arrays, strict=True):
            if shards.unfit_values(array):
                return Features((), bad=f"its feature {extractor.feature} has values that are {shards.UNFIT}")
        return Features(arrays, float(self.summary["seconds"]), tuple(self.summary["notes"]))

    def _align_rows(self, index: int, count: int, settings: Settings, form: Form) -> NDArray[np.float32]:
        """The feature of one extractor for each frame of the video, float32 [count, size].

        From clips, a frame gets the values of the clip whose middle is nearest to the frame's time. From sound, a frame
        gets the values of the window that contains the frame's time. A hop is the distance between the starts of two
        successive windows; frames up to one hop after the last window get the values of the last window. By rules that
        count the sound after the last picture too, the frame after the last picture gets the values of that picture.
        Other frames without a picture or sound get 0.
        """
        computed, aligned = self.rows[index], np.zeros((count, self._sizes[index]), np.float32)
        last = max(computed, default=-1)
        for row in range(count):
            number = row
            if isinstance(form, Clips):
                number = clip_of_row(row, settings.per_second, form.hop)
            elif isinstance(form, Sound):
                number = math.floor(row / settings.per_second * form.rate / form.hop + 1e-9)
            if number == last + 1 and (isinstance(form, Sound) or RULES[settings.rule].counts_whole):
                number = last
            if number in computed:
                aligned[row] = computed[number]
        return aligned


class _Batches:
    """Pictures, clips and windows that wait until a batch is full.

    The values of a batch are for one extractor and have one shape.
    """

    def __init__(
        self, extractors: Sequence[Extractor], computes: Sequence[Compute], sizes: Sequence[int], settings: Settings
    ) -> None:
        self._computes, self._sizes, self._batch_size = computes, sizes, settings.batch
        self._names = [extractor.feature for extractor in extractors]
        self._waiting: dict[tuple[int, tuple[int, ...]], list[tuple[_Video, int, NDArray[Any]]]] = {}

    def add(self, video: _Video, index: int, row: int, values: NDArray[Any]) -> None:
        """Adds one picture, clip or window to a batch; if this fills the batch, computes its features."""
        key = (index, values.shape)
        batch = self._waiting.setdefault(key, [])
        batch.append((video, row, values))
        video.pending += 1
        if len(batch) >= max(1, min(self._batch_size, _BATCH_BYTES // max(1, values.nbytes))):
            self._compute(*key)

    def flush(self) -> None:
        """Computes the features of all batches that wait, full or not."""
        for key in list(self._waiting):
            self._compute(*key)

    def _compute(self, index: int, shape: tuple[int, ...]) -> None:
        """Computes the features of the batch of extractor `index` whose values have this shape."""
        batch = self._waiting.pop((index, shape))
        vectors = self._computes[index](np.stack([values for _, _, values in batch]))
        if vectors.shape != (len(batch), self._sizes[index]):
            expected = f"[{len(batch)}, {self._sizes[index]}]"
            raise RunError(
                f"the extractor of {self._names[index]} returned the shape {list(vectors.shape)}; expected {expected}."
            )
        for (video, row, _), vector in zip(batch, np.asarray(vectors, np.float32), strict=True):
            video.rows[index][row] = vector
            video.pending -= 1


def entry_of(feature: str, entries: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The entry, in the manifest's `extractors`, of the extractor that computes a feature; None if there is none."""
    return next((entry for entry in entries if feature in (entry["feature"], f"mean_{entry['feature']}")), None)


def describe_extractors(
    located: Sequence[LocatedExtractor], ranges: Sequence[Range | None], settings: Settings
) -> list[Mapping[str, Any]]:
    """The entries of the extractors in manifests: all that is needed to compute the same features of another video.

    Args:
      ranges: for each extractor, the range of values that the bytes of frames represent; None for floats.
    """
    shared: dict[str, Any] = dict(frames_per_second=settings.per_second, max_frames=settings.max_frames)
    if settings.rule != EARLIER:  # manifests of earlier versions do not name the rule
        shared["sampling"] = settings.rule
    return [
        {
            "name": name,
            **_package_of(name),
            "feature": extractor.feature,
            "range": None if bounds is None else list(bounds),
            **shared,
            "settings": {key: _as_json(value) for key, value in {**extractor.settings(), **files.settings}.items()},
            "weights": files.sha256,
        }
        for (name, extractor, files), bounds in zip(located, ranges, strict=True)
    ]


def _package_of(name: str) -> dict[str, str]:
    """{"package": the installed package that adds the extractor}; empty if it is built in or a class of the user."""
    package = plug_ins.package_of("extractor", name.partition(":")[0])
    return {"package": package} if package else {}


def _as_json(value: Any) -> Any:
    """The value as JSON gives it back: a tuple becomes a list. So entries equal those that are read from a manifest."""
    return list(value) if isinstance(value, tuple) else value
