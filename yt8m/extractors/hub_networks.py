"""Finds the files of a network from huggingface.co, the form of its inputs, and the processor that prepares the inputs.

The files are in a folder, or in the local cache of a repository on huggingface.co. Pictures are prepared by Pillow and
NumPy, not by torchvision, so that a network computes the same features on every machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line, missing_extra
from yt8m.extractors.base import Clips, Form, Pictures, Scaling, Sound
from yt8m.storage import copies

WEIGHTS = ".safetensors"  # the ending of the files of weights
_INDEX = f"model{WEIGHTS}.index.json"  # lists the files of weights, if there are several
_FETCHED_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")


def import_transformers(name: str) -> Any:
    """Imports the library transformers, and makes it log only errors."""
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise missing_extra(f"extractor {name}", "transformers with torch", "hf") from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def locate_network(network: str, revision: str, *, with_code: bool) -> tuple[str, str]:
    """Finds the files of a network; fetches missing files into the local cache.

    Args:
      revision: a branch, a tag or a commit of the repository; empty for its main branch.

    Returns:
      (the local folder of the network, the commit of its revision; empty if the user named a folder).
    """
    if storage.is_dir(network):
        folder, commit, hint = copies.folder_copy(network), "", ""
    else:
        folder = _fetch_snapshot(network, revision, with_code)
        commit = os.path.basename(folder)
        hint = f" If its download was cut, fetch the rest: {_fetch_command(network, revision)}."
    _refuse_incomplete(folder, hint)
    return folder, commit


def _fetch_command(network: str, revision: str) -> str:
    """The command by which a user fetches a network."""
    revision_flag = f" --hf_revision={revision}" if revision else ""
    return f"yt8m extract --extractors=hf:{network}{revision_flag} --fetch_weights"


def _refuse_incomplete(folder: str, hint: str) -> None:
    """Raises `UsageError` if a folder lacks safetensors files, or a file that its index of weights lists.

    Args:
      hint: a sentence for the end of the message, which says how to get the files; empty for none.
    """
    names = set(storage.names_in(folder))
    if not any(name.endswith(WEIGHTS) for name in names):
        raise UsageError(
            f"{folder} has no weights of the kind {WEIGHTS}. Weights in other files, such as pytorch_model.bin, are "
            "refused, because they can execute code when they are loaded: store the network again by "
            f"save_pretrained(FOLDER).{hint}"
        )
    index = read_settings(storage.join(folder, _INDEX)).get("weight_map", {}) if _INDEX in names else {}
    for missing in sorted({*index.values()} - names):
        raise UsageError(f"{folder} lacks {missing}, which {_INDEX} names.{hint or ' Fetch it again.'}")


def _fetch_snapshot(name: str, revision: str, with_code: bool) -> str:
    """Fetches the missing files of a repository on huggingface.co; returns their folder in the local cache.

    Arguments and errors are those of `locate_network`.
    """
    import_transformers(f"hf:{name}")
    import huggingface_hub
    from huggingface_hub import errors

    patterns = [*_FETCHED_FILES, *(["*.py"] if with_code else [])]
    try:
        return str(
            huggingface_hub.snapshot_download(
                name, revision=revision or None, allow_patterns=patterns, ignore_patterns=["*/*"]
            )
        )
    except (errors.HFValidationError, errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise UsageError(
            "there is no such folder, and huggingface.co has no such repository or revision, or does not let you read "
            f"it: {first_line(error)}"
        ) from error
    except (OSError, ValueError, errors.HfHubHTTPError) as error:
        raise RunError(
            "there is no such folder, its files are not in the cache "
            f"({huggingface_hub.constants.HF_HUB_CACHE}), and huggingface.co cannot be reached. "
            f"On a machine that can reach it, run {_fetch_command(name, revision)}, and copy the cache."
        ) from error


def files_of(folder: str, *, with_code: bool) -> list[str]:
    """The files in a network's folder that determine the features."""
    endings = (".json", WEIGHTS, *([".py"] if with_code else []))
    return [storage.join(folder, name) for name in storage.names_in(folder) if name.endswith(endings)]


def read_settings(path: str) -> dict[str, Any]:
    """Reads the settings in a JSON file of a network."""
    if not storage.exists(path):
        raise UsageError(f"there is no {path}, which describes the network. Fetch it from the source of the weights.")
    try:
        settings = storage.read_json(path)
    except ValueError as error:  # also if it is not UTF-8
        raise UsageError(f"{path} is not a JSON file: {first_line(error)[:200]}. Fetch it again.") from error
    if not isinstance(settings, dict):
        raise UsageError(f"{path} holds {str(settings)[:50]!r}; expected settings, {{name: value}}. Fetch it again.")
    return settings


# The files that may describe the processor of a network; the last one describes processors of videos.
_DESCRIPTION_FILES = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
_INTERPOLATIONS = {1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "area"}  # {Pillow's number: FFmpeg's name}
DEFAULT_RATE = 8.0  # pictures per second of clips, for families of networks that `training_rate` does not know
# {number of pictures of a clip: n, if a clip has every n-th picture of the video}; see `training_rate`.
_TIMESFORMER_STRIDES = {8: 32, 16: 16, 96: 4}
_LEAST_SECONDS = 0.1  # least length of a window of sound; a row of a spectrogram needs at least 0.025 s
# The settings of a processor of videos that say how to prepare each picture.
_PICTURE_SETTINGS = (
    *("do_resize", "size", "resample", "do_center_crop", "crop_size", "do_rescale", "rescale_factor"),
    *("do_normalize", "image_mean", "image_std"),
)


class Processor(NamedTuple):
    """Prepares the inputs of a network and computes its output.

    Attributes:
      prepare: converts an array of this form to the network's inputs, {name: tensor}.
    """

    form: Form
    prepare: Callable[[NDArray[Any]], Mapping[str, Any]]
    call: Callable[..., Any]


def processor_of(transformers: Any, network: Any, folder: str, settings: Mapping[str, Any]) -> Processor:
    """Creates the processor that a network's files describe.

    Args:
      settings: {field: value} of the extractor, a `HuggingFaceNetwork`.
    """
    config, modalities = network.config, network.input_modalities
    frames = getattr(config, "frames_per_clip", 0) or getattr(config, "num_frames", 0)
    if not frames and not any(kind in modalities for kind in ("video", "audio", "image")):
        raise UsageError(
            f"{folder} has a {type(network).__name__}, which takes neither pictures nor clips nor sound. Use a network "
            "that takes one of them."
        )
    descriptions = [path for name in _DESCRIPTION_FILES if storage.exists(path := storage.join(folder, name))]
    for path in descriptions:
        read_settings(path)  # refuses a damaged file with a clearer message than that of transformers
    if not descriptions:
        raise UsageError(
            f"{folder} does not say how its network takes pictures or sound: expected preprocessor_config.json there. "
            "Get that file from the source of the network, or store its processor there by save_pretrained(FOLDER)."
        )
    load_options = {"local_files_only": True, "trust_remote_code": settings["trust_code"]}
    with explain_processor_errors(folder, descriptions):
        if frames or "video" in modalities:
            return _clip_processor(transformers, network, folder, frames, settings, load_options)
        if "audio" in modalities:
            return _sound_processor(transformers, network, folder, settings["sound_seconds"], load_options)
        return _picture_processor(transformers, network, folder, load_options)


@contextlib.contextmanager
def explain_processor_errors(folder: str, descriptions: Sequence[str]) -> Iterator[None]:
    """Turns errors that transformers raises for a processor's settings into a `UsageError`.

    Errors that ask for the permission to execute code (`trust_remote_code`) are left to the caller.
    """
    try:
        yield
    except (UsageError, RunError, OSError, ImportError, RuntimeError, MemoryError):  # of files, packages and devices
        raise
    except Exception as error:  # whatever settings of somebody else make transformers raise
        if "trust_remote_code" in str(error):
            raise
        names = " and ".join(os.path.basename(path) for path in descriptions)
        raise UsageError(
            f"{folder} has no usable processor: transformers cannot make one from {names}: {first_line(error)[:200]}. "
            "Fetch the network again, or use another one."
        ) from error


def _picture_processor(transformers: Any, network: Any, folder: str, load_options: Mapping[str, Any]) -> Processor:
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil", **load_options)

    def prepare(pictures: NDArray[Any]) -> Mapping[str, Any]:
        return dict(processor(list(pictures), return_tensors="pt", input_data_format="channels_last"))

    return Processor(Pictures(), prepare, getattr(network, "get_image_features", network))


def _clip_processor(
    transformers: Any,
    network: Any,
    folder: str,
    frames: int,
    settings: Mapping[str, Any],
    load_options: Mapping[str, Any],
) -> Processor:
    processor = _processor_of_clip_pictures(transformers, folder, load_options)
    rate = settings["clip_rate"] or training_rate(network.config.model_type, frames)
    forward_settings = {"skip_predictor": True} if network.config.model_type == "vjepa2" else {}

    def prepare(clips: NDArray[Any]) -> Mapping[str, Any]:
        videos = [list(clip) for clip in clips]
        pixels = processor(videos, return_tensors="pt", input_data_format="channels_last")["pixel_values"]
        return {network.main_input_name: pixels}

    form = Clips(frames, rate, settings["clip_hop"], _scaling(processor))
    return Processor(form, prepare, lambda **inputs: network(**inputs, **forward_settings))


def _processor_of_clip_pictures(transformers: Any, folder: str, load_options: Mapping[str, Any]) -> Any:
    """The processor that prepares the pictures of clips.

    transformers' processors of videos need torchvision. So if the network has one, a processor of pictures gets its
    settings.
    """
    path = storage.join(folder, "video_preprocessor_config.json")
    if not storage.exists(path):
        return transformers.AutoImageProcessor.from_pretrained(folder, backend="pil", **load_options)
    settings = read_settings(path)
    picture_settings = {name: settings[name] for name in _PICTURE_SETTINGS if name in settings}
    return transformers.VideoMAEImageProcessorPil(**picture_settings)


def _scaling(processor: Any) -> Scaling | None:
    """How the processor scales pictures; None if it does not scale them to a square or by their shorter side.

    The decoder scales the pictures in the same way before the processor gets them, so that clips take less memory.
    """
    size = {key: value for key, value in dict(processor.size).items() if value} if processor.do_resize else {}
    interpolation = _INTERPOLATIONS.get(int(processor.resample), "bicubic")
    if set(size) == {"shortest_edge"}:
        return Scaling(0, size["shortest_edge"], interpolation)
    if set(size) == {"height", "width"} and size["height"] == size["width"]:
        return Scaling(size["height"], 0, interpolation)
    return None


def _sound_processor(
    transformers: Any, network: Any, folder: str, seconds: float, load_options: Mapping[str, Any]
) -> Processor:
    if network.config.is_encoder_decoder:
        raise UsageError(
            f"{folder} has a {type(network).__name__}, which turns sound into text, and has no output for a window of "
            "sound. Use a network that computes features of sound, such as AST or CLAP."
        )
    processor = transformers.AutoFeatureExtractor.from_pretrained(folder, **load_options)
    rate = int(processor.sampling_rate)
    # The network's own length in samples. It has another name for CLAP, for Whisper, and for networks of spectrograms,
    # which give it as a number of rows of 10 ms.
    samples = getattr(processor, "nb_max_samples", 0) or getattr(processor, "n_samples", 0)
    samples = samples or getattr(processor, "max_length", 0) * rate // 100 or 10 * rate
    window = round(seconds * rate) or samples
    if window < _LEAST_SECONDS * rate:
        raise UsageError(f"--sound_seconds={seconds:g}: expected at least {_LEAST_SECONDS}.")

    def prepare(sound: NDArray[Any]) -> Mapping[str, Any]:
        inputs = dict(processor(list(sound), sampling_rate=rate, return_tensors="pt"))
        # If no sound is too long, CLAP's processor marks a random one. Then the features would depend on chance.
        if "is_longer" in inputs:
            inputs["is_longer"] = inputs["is_longer"] & False
        return inputs

    call = getattr(network, "get_audio_features", network)
    return Processor(Sound(rate, window, rate), prepare, call)


def training_rate(family: str, frames: int) -> float:
    """The pictures per second of the clips on which a family of networks was trained; `DEFAULT_RATE` if not known.

    The files of a network do not contain this rate. The sources are the authors' training configurations:
      vjepa2: facebookresearch/vjepa2, configs/train/*: fps 4, before and after the cooldown.
      videomae: MCG-NJU/VideoMAE, scripts/kinetics/*/pretrain.sh: every fourth picture of a file; most videos of
        Kinetics have 30 pictures per second. (For Something-Something, with 12 per second, it is every second picture.)
      timesformer: facebookresearch/TimeSformer, configs/Kinetics: every 32nd, 16th or fourth picture for clips of 8, 16
        or 96 pictures, of videos that are read at 30 pictures per second.
      vivit: google-research/scenic, projects/vivit/configs/kinetics400/vivit_base_k400.py: every second picture of
        videos of 250 pictures in ten seconds.
    """
    rates = {"vjepa2": 4.0, "videomae": 30 / 4, "vivit": 25 / 2}
    return 30 / _TIMESFORMER_STRIDES.get(frames, 32) if family == "timesformer" else rates.get(family, DEFAULT_RATE)
