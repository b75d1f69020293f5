"""The base class of extractors, the forms of their inputs, their registry, and the files of their weights.

An extractor turns the pictures, the clips of pictures, or the sound of a video into one feature. A feature has one row
of numbers for each frame of the video, a frame being a moment at which the video is sampled, usually once per second.
The form of its inputs (`Form`) says what they are: pictures, clips or windows of sound, of which size and how often.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import file_kinds, options, plug_ins, storage
from yt8m.errors import UsageError
from yt8m.extractors import sampling_rules
from yt8m.options import option
from yt8m.records.data_format import Range
from yt8m.registry import Catalogue

# The function of an extractor, from N inputs to float32 [N, size]; see `Extractor.open`.
Compute = Callable[[NDArray[Any]], NDArray[np.float32]]

INTERPOLATIONS = ("bicubic", "bilinear", "area", "lanczos", "spline")


class Scaling(NamedTuple):
    """How a picture is scaled before an extractor gets it.

    Attributes:
      size: height and width in pixels of the square that the extractor takes; 0 cuts no square, so that the picture
        keeps its proportions.
      shorter_side: the picture is scaled until its shorter side has this length in pixels, and the square is cut out of
        the middle of the picture; 0 scales the whole picture to the square, which changes its proportions.
    """

    size: int
    shorter_side: int = 0
    interpolation: str = "bicubic"


class Pictures(NamedTuple):
    """The form of inputs with one picture for each row of the feature, uint8 [N, H, W, 3] in RGB.

    Attributes:
      scaling: how pictures are scaled; None for pictures of the video's own size.
    """

    scaling: Scaling | None = None


class Clips(NamedTuple):
    """The form of inputs that are clips of successive pictures, uint8 [N, frames, H, W, 3] in RGB.

    Attributes:
      rate: pictures per second.
      hop: seconds from the middle of a clip to the middle of the next one; the middle of clip 0 is at the start of the
        video.
    """

    frames: int
    rate: float
    hop: float = 1.0
    scaling: Scaling | None = None

    def check(self) -> None:
        """Raises `UsageError` if clips of this form cannot be made."""
        if self.frames < 1 or not 0 < self.rate <= 1000 or self.hop < 0.001:
            raise UsageError(
                f"clips of {self.frames} pictures at {self.rate:g} a second, every {self.hop:g} seconds: expected at "
                "least one picture, up to 1000 a second, and at least 0.001 seconds. An extractor of clips defines "
                "`frames` and `rate`."
            )


class Sound(NamedTuple):
    """The form of inputs that are windows of sound, float32 [N, window], one channel from -1 to 1.

    Attributes:
      rate: samples per second.
    """

    rate: int
    window: int
    hop: int


Form = Pictures | Clips | Sound


def blank(form: Form) -> NDArray[Any]:
    """An array with one input of this form: a black picture or clip, or a silent window.

    An extractor that computes this input shows how many values its feature has. A picture has the size that the form
    asks for; 64 x 64 pixels if it asks for none.
    """
    if isinstance(form, Sound):
        return np.zeros((1, form.window), np.float32)
    side = (form.scaling.size or form.scaling.shorter_side) if form.scaling else 64
    frames = (form.frames,) if isinstance(form, Clips) else ()
    return np.zeros((1, *frames, side, side, 3), np.uint8)


class PublishedFile(NamedTuple):
    """Where a file of weights is published.

    Attributes:
      md5: the published md5 in hexadecimal; empty if none is published.
      sha256: the sha256 of the published file in hexadecimal; empty if it is not known.
    """

    file: str
    address: str
    md5: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class OpenedExtractor:
    """What `Extractor.open` may yield in place of the function: the function with the form of its inputs.

    Extractors yield it if their weights determine the form of the inputs. Call it like the function.
    """

    compute: Compute
    form: Form

    def __call__(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """See `Extractor.open`."""
        return self.compute(values)


def weights(help: str, source: PublishedFile | None = None) -> Any:
    """Declares a field of an extractor that holds the path of a file of weights.

    Args:
      source: where the file is published; None if only the user can give the path.
    """
    source_text = f" [fetched from {source.address}]" if source else ""
    declared = option("", help + source_text)
    return dataclasses.field(default="", metadata={**declared.metadata, "weights": True, "source": source})


def form_option(form: type[Form], default: Any, help: str, **bounds: Any) -> Any:
    """Declares a field of an extractor that has an effect only if the extractor takes inputs of the form `form`.

    Args:
      default: the default value of the field.
      bounds: the limits of the value, such as `minimum`; see `options.option`.
    """
    declared = option(default, help, **bounds)
    return dataclasses.field(default=default, metadata={**declared.metadata, "form": form})


@dataclass(frozen=True)
class Extractor(options.Checked, abc.ABC):
    """Computes one feature. The fields of a subclass, declared by `options.option` and `weights`, are its flags.

    Attributes:
      feature: name of the feature in frame-level records; video-level records have its mean over the frames, under the
        name `mean_<feature>`.
      size: number of values of the feature; 0 if the weights determine it.
      bytes_range: the range (lowest, highest value) if frame-level records store values as bytes; None to store floats.
      rate: for sound, samples per second; for clips, pictures per second.
      hop: for sound, distance of the starts of successive windows, in samples; for clips, distance of the middles of
        successive clips, in seconds, by default 1.
      free_settings: fields that do not change the feature, such as the device that computes it.
    """

    feature: ClassVar[str]
    takes: ClassVar[Literal["frames", "clips", "waveform"]] = "frames"
    size: ClassVar[int] = 0
    bytes_range: ClassVar[Range | None] = None
    frames: ClassVar[int] = 0
    rate: ClassVar[float] = 16000
    window: ClassVar[int] = 16000
    hop: ClassVar[float] = 16000
    sampling: ClassVar[str] = sampling_rules.WHOLE
    free_settings: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.form, Clips):
            self.form.check()

    @property
    def scaling(self) -> Scaling | None:
        """How to scale the pictures; None to get pictures of the video's own size.

        Either way, all pictures in one call of the extractor's function have the same size.
        """
        return None

    @property
    def form(self) -> Form:
        """The form of the inputs, unless `open` yields an `OpenedExtractor`: then the form of that one counts."""
        if self.takes == "waveform":
            return Sound(int(self.rate), self.window, int(self.hop))
        if self.takes == "frames":
            return Pictures(self.scaling)
        return Clips(self.frames, self.rate, 1.0 if self.hop is Extractor.hop else self.hop, self.scaling)

    @abc.abstractmethod
    def open(self, weights: Mapping[str, str]) -> AbstractContextManager[Compute]:
        """Loads the weights, and yields the function that computes the feature.

        Args:
          weights: {field that the function `weights` declares: local path of the file}.

        Returns:
          A context manager that yields the function. The function maps uint8 [N, H, W, 3] (RGB), uint8
          [N, frames, H, W, 3] or float32 [N, window] (one channel, from -1 to 1) to float32 [N, size]; N is at least 1.
          If the weights determine the form of the inputs, an `OpenedExtractor` is yielded in place of the function.
        """

    def locate_weights(self, path: str) -> tuple[str, dict[str, Any]]:
        """Finds the weights that the user named; a subclass may fetch missing files.

        Returns:
          (local path of the weights, {field: value} of the settings that this choice of weights fixes).
        """
        if not storage.exists(path):
            raise UsageError("there is no such file.")
        return path, {}

    def refuse_unused(self) -> None:
        """Raises `UsageError` if a setting of the user would have no effect; here it refuses nothing."""
        return

    def files_of(self, path: str) -> list[str]:
        """The paths of the files that hold the weights: `path`, and other files to which that file refers."""
        return [path]

    def settings(self) -> dict[str, Any]:
        """{field: value} of the fields that determine the feature, besides the weights."""
        others = {*self.weight_files(), *self.free_settings}
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name not in others}

    def form_settings(self) -> dict[str, type[Form]]:
        """{field that `form_option` declares: the form for which the field has an effect}."""
        forms = {field.name: field.metadata.get("form") for field in dataclasses.fields(self)}
        return {name: form for name, form in forms.items() if form}

    def weight_files(self) -> dict[str, PublishedFile | None]:
        """{field that the function `weights` declares: where its file is published, or None}."""
        fields = [field for field in dataclasses.fields(self) if field.metadata.get("weights")]
        return {field.name: field.metadata["source"] for field in fields}


def refuse_settings_of_other_forms(extractors: Sequence[Extractor], forms: Sequence[Form]) -> None:
    """Refuses a setting that `form_option` declares, if no extractor with that setting takes the setting's form."""
    for extractor in extractors:
        for setting, form in extractor.form_settings().items():
            value, default = getattr(extractor, setting), getattr(type(extractor), setting)
            pairs = zip(extractors, forms, strict=True)
            forms_with_setting = [other_form for other, other_form in pairs if setting in other.form_settings()]
            if value != default and not any(isinstance(other_form, form) for other_form in forms_with_setting):
                kinds = [cls.__name__.lower() for cls in (type(forms_with_setting[0]), form)]
                raise UsageError(
                    f"--{setting}={value} has no effect: {extractor.feature} is computed from {kinds[0]}, not from "
                    f"{kinds[1]}. Leave out --{setting}."
                )


_catalogue = Catalogue(
    "extractor",
    "extraction",
    modules=[f"yt8m.extractors.{name}" for name in ("hugging_face", "picture_models", "published_features")],
    group="yt8m.extractors",
)

named = _catalogue.register_as
names = _catalogue.names
built_in_names = _catalogue.built_in_names
names_and_packages = _catalogue.names_and_packages
is_plug_in = _catalogue.is_plug_in
hyper_parameters = _catalogue.hyper_parameters


def get(name: str) -> type[Extractor]:
    """The class of the extractor `name`. Unlike `split_name`, it accepts `onnx` without a file after it."""
    return _catalogue.get(name) if name in _catalogue.names() else split_name(name)[0]


def split_name(name: str) -> tuple[type[Extractor], str]:
    """Splits the name of an extractor, such as `onnx:clip.onnx`.

    Returns:
      (the class of the extractor, the path or name after the colon: `clip.onnx`; empty if the class takes none).
    """
    kind, _, file = name.partition(":")
    if name.count("/") == 1 and ":" not in name:
        raise UsageError(f"unknown extractor {name!r}. A network of Hugging Face is named hf:{name}.")
    is_listed = kind in _catalogue.names() or plug_ins.is_expected("extractor", kind)
    takes_file = is_listed and bool(file_field_of(_catalogue.get(kind)))
    if takes_file and not file:
        raise UsageError(f"extractor {name!r}: add the path of its file or folder, as in {kind}:PATH.")
    _refuse_file(name)
    cls = _catalogue.get(kind if takes_file else name)
    if not (isinstance(cls, type) and issubclass(cls, Extractor)):
        raise UsageError(f"extractor {name!r}: expected a subclass of yt8m.extractors.Extractor; found {cls!r}.")
    return cls, file if takes_file else ""


def _refuse_file(name: str) -> None:
    """Refuses the path of a file or folder in place of a name, with the name that takes such a file."""
    if ":" in name or name in _catalogue.names() or not storage.exists(name):
        return
    is_dir = storage.is_dir(name)
    kind = storage.folder_kind(name) if is_dir else storage.kind_of(name)
    written = "onnx" if kind == file_kinds.ONNX else "saved_model" if kind == file_kinds.EXPORT else "hf" * is_dir
    if written:
        raise UsageError(f"extractor {name!r}: this is a {'folder' if is_dir else 'file'}; write {written}:{name}.")
    raise UsageError(f"extractor {name!r}: {storage.why_no_folder(name)}; name an extractor.")


def file_field_of(cls: type) -> str:
    """The name of the field that gets FILE from a name such as `onnx:FILE`; empty if the class has no such names."""
    return str(getattr(cls, "file_field", ""))


def create(name: str, settings: Mapping[str, Any] | None = None) -> Extractor:
    """Creates an extractor.

    Args:
      name: the name, such as `inception`, `onnx:FILE` or `package.module:Class`.
      settings: {field: value}; other fields have their defaults.
    """
    cls, file = split_name(name)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in (settings or {}).items()}
    field_names = [field.name for field in dataclasses.fields(cls)]
    for unknown in sorted(values.keys() - set(field_names)):
        raise UsageError(f"extractor {name} has no setting {unknown!r}. It has: {', '.join(field_names) or 'none'}.")
    return cls(**{**({file_field_of(cls): file} if file else {}), **values})
