"""What the machine's environment says where a flag is not given: the variables of a Vertex AI job.

https://cloud.google.com/vertex-ai/docs/training/code-requirements#environment-variables
"""

from __future__ import annotations

import os
from collections.abc import Mapping

TRAIN = {
    "AIP_CHECKPOINT_DIR": "train_dir",
    "AIP_MODEL_DIR": "export_dir",
    "AIP_TENSORBOARD_LOG_DIR": "log_dir",
    "AIP_TRAINING_DATA_URI": "train_data_pattern",
    "AIP_VALIDATION_DATA_URI": "eval_data_pattern",
}
EVALUATION = {"AIP_CHECKPOINT_DIR": "train_dir", "AIP_VALIDATION_DATA_URI": "eval_data_pattern"}
INFERENCE = {"AIP_CHECKPOINT_DIR": "train_dir", "AIP_TEST_DATA_URI": "input_data_pattern"}


def defaults(variables: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """{flag: value} of the variables that are set; folders come with a slash at their end, which goes."""
    found = {flag: environment.get(variable, "").strip() for variable, flag in variables.items()}
    return {flag: value.rstrip("/") for flag, value in found.items() if value}
