"""The files of a network of Hugging Face: a folder, or a snapshot of a repository on huggingface.co in its cache."""

from __future__ import annotations

import json
import os
from typing import Any

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line, missing_extra
from yt8m.storage import copies

WEIGHTS = ".safetensors"
_INDEX = f"model{WEIGHTS}.index.json"
_TAKEN = ("*.safetensors", "*.json", "*.txt", "*.model")


def import_transformers(name: str) -> Any:
    """Imports the library transformers, and lets it log nothing but errors.

    Raises:
      UsageError: it or torch is not installed.
    """
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise missing_extra(f"extractor {name}", "transformers and torch", "hf") from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def locate(network: str, revision: str, *, with_code: bool) -> tuple[str, str]:
    """The local folder of a network and the commit of its revision, empty for a folder; fetches what is missing.

    Args:
      network: a folder, also in a bucket, or the name of a repository on huggingface.co.
      revision: a branch, a tag or a commit of the repository; empty for its main branch.
      with_code: whether Python files are fetched too.

    Raises:
      UsageError: there is no such repository or revision, or it has no safetensors, or not all of them.
      RunError: huggingface.co cannot be reached.
    """
    if storage.is_dir(network):
        folder, commit, hint = copies.folder_copy(network), "", ""
    else:
        folder = _snapshot(network, revision, with_code)
        commit = os.path.basename(folder)
        hint = f" If its download was cut, fetch the rest: {_fetching(network, revision)}."
    _refuse_incomplete(folder, hint)
    return folder, commit


def _fetching(network: str, revision: str) -> str:
    """The command that fetches a network."""
    at = f" --hf_revision={revision}" if revision else ""
    return f"yt8m extract --extractors=hf:{network}{at} --fetch_weights"


def _refuse_incomplete(folder: str, hint: str) -> None:
    """Refuses a folder without safetensors, or without one that the index of weights in several files names."""
    names = set(storage.names_in(folder))
    if not any(name.endswith(WEIGHTS) for name in names):
        raise UsageError(
            f"{folder} has no weights of the kind {WEIGHTS}. Weights in other files, such as "
            "pytorch_model.bin, can execute code when they are loaded, and are not taken: store the network again by "
            f"save_pretrained(FOLDER).{hint}"
        )
    index = read_settings(storage.join(folder, _INDEX)).get("weight_map", {}) if _INDEX in names else {}
    for missing in sorted({*index.values()} - names):
        raise UsageError(f"{folder} lacks {missing}, which {_INDEX} names.{hint or ' Fetch it again.'}")


def _snapshot(name: str, revision: str, with_code: bool) -> str:
    import_transformers(f"hf:{name}")
    import huggingface_hub
    from huggingface_hub import errors

    patterns = [*_TAKEN, *(["*.py"] if with_code else [])]
    try:
        return str(
            huggingface_hub.snapshot_download(
                name, revision=revision or None, allow_patterns=patterns, ignore_patterns=["*/*"]
            )
        )
    except (errors.HFValidationError, errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise UsageError(
            "there is no such folder, and huggingface.co has no such repository or revision that may be read: "
            f"{first_line(error)}"
        ) from error
    except (OSError, ValueError, errors.HfHubHTTPError) as error:
        raise RunError(
            "there is no such folder, its files are not in the cache "
            f"({huggingface_hub.constants.HF_HUB_CACHE}), and huggingface.co cannot be reached. "
            f"On a machine that reaches it, run {_fetching(name, revision)}, and copy the cache."
        ) from error


def files_of(folder: str, *, with_code: bool) -> list[str]:
    """The files of a network that decide its features: configurations, weights and, if they are used, Python files."""
    endings = (".json", WEIGHTS, *([".py"] if with_code else []))
    return [storage.join(folder, name) for name in storage.names_in(folder) if name.endswith(endings)]


def read_settings(path: str) -> dict[str, Any]:
    """The settings in a JSON file of a network; raises UsageError if there is none, or it holds something else."""
    if not storage.exists(path):
        raise UsageError(f"there is no {path}, which describes the network. Fetch it from where its weights are from.")
    try:
        settings = json.loads(storage.read_text(path))
    except ValueError as error:  # also of UTF-8
        raise UsageError(f"{path} is not a JSON file: {first_line(error)[:200]}. Fetch it again.") from error
    if not isinstance(settings, dict):
        raise UsageError(f"{path} holds {str(settings)[:50]!r}; expected settings, {{name: value}}. Fetch it again.")
    return settings
