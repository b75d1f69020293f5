"""The temporary folder with the run of a classifier, which is removed with the last object that has it."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import shutil
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.eval_util.named_figures import NamedFigures
from yt8m.python_api.data_errors import DataError
from yt8m.storage import copies, new_outputs, temporary
from yt8m.storage.local import LocalStore

if TYPE_CHECKING:
    from yt8m.python_api.loaded_model import Model

_NOT_KEPT = ("events.out.tfevents", ".lock")  # how the names of files begin that nobody needs of a run in a pickle

_load_lock = threading.Lock()


class RunFolder:
    """A folder of this process with a run, and the model that is loaded from it at its first use.

    Attributes:
      path: where the run is.
      data: where the records are for the time of the training.
    """

    def __init__(self) -> None:
        root = temporary.new_folder("", copies.process_folder("yt8m-classifier-"))
        self.path, self.data = os.path.join(root, "run"), os.path.join(root, "data")
        self._loaded: list[Model] = []
        # Called at the latest when Python ends.
        self.remove = weakref.finalize(self, _remove, os.getpid(), root, self._loaded)

    @property
    def model(self) -> Model:
        """The trained model."""
        from yt8m.python_api.loaded_model import load  # imports TensorFlow

        with _load_lock:
            if not self._loaded:
                self._loaded.append(load(self.path, trust_code=True))
        return self._loaded[0]

    def config(self) -> TrainConfig:
        """The config of the run."""
        saved = run_dir.read(self.path, trust_code=True)
        assert saved is not None
        return saved.config

    def replace_texts(self, texts: Mapping[str, str]) -> None:
        """Replaces texts in the files of the run that people read, and removes the state of a choice that has ended."""
        pathlib.Path(self.path, run_dir.SEARCH).unlink(missing_ok=True)
        for path in pathlib.Path(self.path).rglob("*"):
            if path.suffix in (".json", ".jsonl", ".md"):
                content = path.read_text("utf-8")
                for former, new in texts.items():
                    content = content.replace(former, new)
                path.write_text(content, "utf-8")

    def facts(self) -> dict[str, Any]:
        """{what: value} of the trained model for a notebook; the figures are those of the held out videos."""
        config = self.config()
        figures = NamedFigures(config.search.quoted).spelled()
        return {"trained": config.model.model, **{f"{name} of the choice": figures[name] for name in figures}}

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Copies the run into a new folder.

        A program that was killed after the copy had its name succeeds when it is repeated, if it has learned the same.
        """
        target = storage.absolute(storage.expanded(os.fspath(path)))
        if storage.is_remote(target):
            raise DataError(f"{target}: a classifier is saved on this machine; save it here, and copy the folder then.")
        command = f"Classifier.save {self._digest_of_weights()}"
        exists = os.path.lexists(target)
        if exists and not new_outputs.was_begun(target, command):
            raise DataError(f"{target} exists already: name a new folder.")
        with new_outputs.begun(target, command):
            if not exists:
                self._copy_to(target)

    def _copy_to(self, target: str) -> None:
        with LocalStore().replaced_folder(target) as part:
            shutil.copytree(self.path, part, dirs_exist_ok=True)
            config = dataclasses.replace(self.config(), train_dir=target)
            run_dir.write(part, config, is_own=run_dir.is_own(self.path))

    def _digest_of_weights(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(pathlib.Path(self.path).glob("*.data-*")):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()

    def packed(self) -> dict[str, bytes]:
        """{path in the run: content} of its files."""
        files = (path for path in pathlib.Path(self.path).rglob("*") if path.is_file())
        wanted = (path for path in files if not path.name.startswith(_NOT_KEPT))
        return {str(path.relative_to(self.path)): path.read_bytes() for path in wanted}

    @classmethod
    def unpacked(cls, packed: Mapping[str, bytes]) -> RunFolder:
        """A new folder with these files."""
        folder = cls()
        for name, content in packed.items():
            path = pathlib.Path(folder.path, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder


def _remove(pid: int, root: str, loaded: Sequence[Model]) -> None:
    if os.getpid() == pid:  # not in a process that was forked from it
        for model in loaded:
            model.close()
        shutil.rmtree(root, ignore_errors=True)
