"""The declaration of an option says all about it, so no list of names of options is kept by hand elsewhere."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator

import pytest
import sources
from sources import ROOT

import yt8m
from yt8m import extractors, losses, models
from yt8m.options import declared, fields_of, flag_of, short_name

# Lists that say nothing about options: {(file, items): what they are}.
EXCEPTIONS = {
    ("yt8m/config/run_dir.py", "train,validate"): "the folders of event files",
    ("yt8m/datasets/sample_data/__init__.py", "train,validate,test"): "the splits, which are folders",
    ("yt8m/datasets/make_records/output.py", "videos,labels,shards,bytes"): "the keys of summary.json",
    (
        "yt8m/command_line/run_words.py",
        "train_data_pattern,start_new_model,max_steps,export_model_steps,log_device_placement",
    ): "flags of the published train.py, which does not change",
    ("yt8m/records/batches.py", "batch_size,max_frames,shuffle_buffer"): "arguments of a class below the options",
    (
        "yt8m/records/data_format.py",
        "level,segment_labels,num_classes,segment_size,frames_per_second",
    ): "keys of manifest.json, below the options",
    (
        "yt8m/models/base.py",
        "l2_penalty,moe_num_mixtures,batch_norm_decay,gating_remove_diag",
    ): "what a model shares with its classifier, which a user's model may change",
}


# Files about the options that a search or a classifier chooses by itself, or that the constructor of the classifier
# takes as its arguments: that is no property of an option.
CHOOSING = {
    *(
        f"yt8m/{name}.py"
        for name in ("command_line/search_flags", "config/search_config", "training/search/candidates")
    ),
    "yt8m/classifier/classifier_training.py",
    "yt8m/python_api/data_errors.py",
}


def names_of_programs() -> Iterator[set[str]]:
    """Yields the names of the options and flags of each config with its sections, of each model, loss, extractor."""
    for module in pkgutil.walk_packages(yt8m.__path__, "yt8m."):
        if "__main__" in module.name:
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ModuleNotFoundError as missing:
            if missing.name not in ("apache_beam", "onnx"):
                raise
            continue
        for cls in vars(loaded).values():
            is_here = isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module.name
            if is_here and any(field.metadata for field in dataclasses.fields(cls)):
                fields = list(fields_of(cls))
                yield {short_name(path) for path, _ in fields} | {flag_of(field) for _, field in fields}
    for catalogue in (models, losses, extractors):
        yield {name for each in catalogue.built_in_names() for name in declared(catalogue.get(each))}


def texts_of(node: ast.AST) -> list[str]:
    """The texts that a literal lists: the items of a tuple, a list or a set, or the keys of a dict."""
    items: list[ast.expr | None] = []
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        items = list(node.elts)
    elif isinstance(node, ast.Dict):
        items = list(node.keys)
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def literals(tree: ast.AST) -> Iterator[list[str]]:
    """Yields the texts of each literal below a node, except in declarations (calls of `option` and `same_as`)."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("option", "same_as"):
            continue
        yield texts_of(node)
        yield from literals(node)


@pytest.mark.long
def test_no_list_of_names_of_options_is_kept_by_hand() -> None:
    programs = list(names_of_programs())
    assert len(programs) > 30
    found = set()
    for path in sources.files():
        for texts in literals(sources.tree(path)):
            most = max(len(names.intersection(texts)) for names in programs) if len(texts) > 1 else 0
            if most >= 2 and 2 * most >= len(texts):
                found.add((str(path.relative_to(ROOT)), ",".join(texts)))
    found = {(path, items) for path, items in found if path not in CHOOSING}
    assert found == EXCEPTIONS.keys()
    assert len(EXCEPTIONS) <= 7
