"""`yt8m extract`: records of the user's own videos, out of the video files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from yt8m import extractors, options
from yt8m.commands.extract import weights
from yt8m.config import flags
from yt8m.errors import UsageError
from yt8m.extractors import Extractor
from yt8m.options import option


class Chosen(NamedTuple):
    """An extractor that the user chose, by the name that was given for it."""

    name: str
    extractor: Extractor


@dataclass(frozen=True, kw_only=True)
class ExtractConfig(options.Checked):
    """The flags of `yt8m extract`."""

    required = ("extractors",)

    extractors: tuple[str, ...] = option(
        ("inception", "vggish"), "inception, vggish, onnx:FILE, saved_model:DIR, or package.module:Class of your own"
    )
    fetch_weights: bool = option(False, "only fetch the weights of the extractors into the cache, and check them")


def main(argv: list[str]) -> int:
    """Extracts features; returns the exit status.

    Raises:
      UsageError: a flag is wrong; nothing was written.
      RunError: weights cannot be fetched.
    """
    purpose = "Makes records out of video files: the features that extractors compute from pictures and sound."
    config, given = flags.read_with(ExtractConfig, "yt8m extract", purpose, argv, extractors, "extractors")
    chosen = choose(config.extractors, given)
    if config.fetch_weights:
        for one in chosen:
            found = weights.find(one.extractor, one.name)
            for field, path in found.paths.items():
                print(f"{one.name} {field}: {path}, sha256 {found.sha256[field]}")
        return 0
    raise UsageError("only --fetch_weights is there yet.")


def choose(names: tuple[str, ...], given: Mapping[str, Any]) -> list[Chosen]:
    """The extractors of these names; each gets those of the given settings that it has.

    Raises:
      UsageError: there is no such extractor, none has a given setting, or two compute features of one name.
    """
    kinds = {name: extractors.kind_of(name)[0] for name in names}
    fields = {name: extractors.hyper_parameters(kind) for name, kind in kinds.items()}
    for setting, value in given.items():
        if not any(setting in of_one for of_one in fields.values()):
            raise UsageError(f"--{setting}={value}: none of the extractors {', '.join(names)} has such a setting.")
    chosen = [
        Chosen(name, extractors.create(name, {key: value for key, value in given.items() if key in fields[name]}))
        for name in kinds
    ]
    features = [one.extractor.feature for one in chosen]
    for feature in features:
        if features.count(feature) > 1 or len(kinds) < len(names):
            raise UsageError(
                f"--extractors={','.join(names)}: two of them compute a feature {feature!r}. Name each extractor once, "
                "and give those of your own other names of features."
            )
    return chosen
