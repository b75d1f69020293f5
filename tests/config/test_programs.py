"""Configs of the programs that use a trained run refuse what cannot be."""

from __future__ import annotations

import dataclasses

import pytest

from yt8m.config.programs import InferenceConfig
from yt8m.errors import UsageError


def test_a_model_is_named_once() -> None:
    with pytest.raises(UsageError, match="--train_dir and --input_model_tgz both name a model; give one of them"):
        dataclasses.replace(InferenceConfig(train_dir="a"), input_model_tgz="b")
