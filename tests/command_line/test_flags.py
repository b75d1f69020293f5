"""Command lines of the three programs, and what they must agree on."""

from __future__ import annotations

import pytest

from yt8m.command_line import flags
from yt8m.config.programs import EvalConfig, InferenceConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import UsageError


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "train0000.tfrecord"
    path.write_bytes(b"")
    return str(path)


def test_nothing_given_means_the_defaults_of_the_classes():
    config = flags.train_config([])
    assert config.data == TrainConfig().data
    assert config.optimizer == TrainConfig().optimizer
    assert config.checkpoints == TrainConfig().checkpoints
    assert config.model.model == "LogisticModel"
    assert config.model.hyper_parameters == {"l2_penalty": 1e-8, "l2_biases": False}
    assert flags.eval_config([]) == EvalConfig()
    assert flags.inference_config([]) == InferenceConfig()


def test_each_flag_reaches_its_field(shard):
    config = flags.train_config(
        f"--train_data_pattern={shard} --train_dir=runs/a --feature_names=rgb,audio --feature_sizes=16,8 "
        "--frame_features --segment_labels --model=FrameLevelLogisticModel --num_gpu=2 --batch_size=32 "
        "--label_loss=HingeLoss --optimizer=GradientDescentOptimizer --learning_rate_decay_examples=100 "
        "--num_epochs=3 --max_steps=7 --seed=5 --exact_resume --save_checkpoint_steps=4 --precision=bfloat16 "
        "--combine_gradients=sum --moving_average_decay=0.9 --callbacks=train_loss,my.module:Mine "
        "--start_new_model --num_classes=20 --max_frames=30 --sync_batch_norm".split()
    )
    assert config.data.data_pattern == shard
    assert (config.data.feature_names, config.data.feature_sizes) == (("rgb", "audio"), (16, 8))
    assert config.data.frame_features
    assert config.data.segment_labels
    assert config.checkpoints.exact_resume
    assert (config.data.batch_size, config.data.num_classes, config.data.max_frames) == (32, 20, 30)
    assert (config.seed, config.data.seed, config.data.num_epochs) == (5, 5, 3)
    assert (config.model.model, config.model.label_loss) == ("FrameLevelLogisticModel", "HingeLoss")
    assert config.optimizer.optimizer == "GradientDescentOptimizer"
    assert config.optimizer.learning_rate_decay_examples == 100
    assert (config.optimizer.combine_gradients, config.optimizer.moving_average_decay) == ("sum", 0.9)
    assert (config.devices.num_gpu, config.devices.precision) == (2, "bfloat16")
    assert config.devices.sync_batch_norm
    assert (config.checkpoints.save_checkpoint_steps, config.checkpoints.start_new_model) == (4, True)
    assert (config.train_dir, config.max_steps) == ("runs/a", 7)
    assert config.callbacks == ("train_loss", "my.module:Mine")


@pytest.mark.parametrize(
    ("words", "names", "sizes"),
    [
        ("", ("mean_rgb",), (1024,)),
        ("--frame_features --model=FrameLevelLogisticModel", ("rgb",), (1024,)),
        ("--feature_names=mean_audio,mean_rgb", ("mean_audio", "mean_rgb"), (128, 1024)),
        ("--feature_names=mean_rgb --feature_sizes=16", ("mean_rgb",), (16,)),
    ],
)
def test_features_that_are_not_named_are_the_published_ones(shard, words, names, sizes):
    data = flags.train_config([f"--train_data_pattern={shard}", *words.split()]).data
    assert (data.feature_names, data.feature_sizes) == (names, sizes)


@pytest.mark.promise("F1")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--model=LogisticModl", ["--model=LogisticModl", "did you mean LogisticModel?"]),
        ("--model=nowhere.to:Model", ["--model=nowhere.to:Model", "cannot load"]),
        ("--label_loss=CrossEntropy", ["--label_loss=CrossEntropy", "did you mean CrossEntropyLoss?"]),
        ("--model=os:path", ["--model=os:path", "a class with a method create_model"]),
        ("--model=yt8m.errors:UsageError", ["--model=yt8m.errors:UsageError", "create_model"]),
        ("--label_loss=os:getcwd", ["--label_loss=os:getcwd", "a class with a method calculate_loss"]),
        (
            "--optimizer=Adam",
            ["--optimizer=Adam:", "did you mean AdamOptimizer?", "or package.module:Name for one of your own"],
        ),
        ("--optimizer=AdamOptimiser", ["--optimizer=AdamOptimiser", "did you mean AdamOptimizer?"]),
        ("--batch_size=0", ["--batch_size must be at least 1; it is 0"]),
        ("--num_gpu=-1", ["--num_gpu must be at least 1"]),
        ("--base_learning_rate=0", ["--base_learning_rate must be at least"]),
        ("--learning_rate_decay=1.5", ["--learning_rate_decay must be at most 1"]),
        ("--num_epochs=0", ["--num_epochs must be at least 1"]),
        ("--combine_gradients=average", ["--combine_gradients must be one of mean, sum"]),
        ("--feature_names=rgb,audio --feature_sizes=1024", ["2 entries (rgb,audio)", "1 (1024)"]),
        ("--feature_names=a --feature_sizes=0", ["--feature_sizes=0", "at least 1"]),
        ("--feature_names=a,a --feature_sizes=1,1", ["--feature_names=a,a", "twice"]),
        ("--feature_names=mine", ["--feature_names=mine", "--feature_sizes"]),
        ("--segment_labels", ["--segment_labels needs --frame_features"]),
        ("--frame_features", ["--model=LogisticModel", "FrameLevelLogisticModel"]),
        ("--model=FrameLevelLogisticModel", ["add --frame_features", "LogisticModel, MoeModel"]),
        ("--train_data_pattern=/nowhere/*.tfrecord", ["--train_data_pattern=/nowhere/*.tfrecord", "no file"]),
    ],
)
def test_training_that_cannot_be_is_refused(words, parts):
    with pytest.raises(UsageError) as refusal:
        flags.train_config(words.split())
    for part in parts:
        assert part in str(refusal.value)


def test_a_folder_stands_for_its_split(tmp_path):
    for split in ("train", "validate", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "a.tfrecord").write_bytes(b"")
    config = flags.train_config([f"--data={tmp_path}", f"--eval_data_pattern={tmp_path}", "--feature_names=rgb"])
    assert config.data.data_pattern == f"{tmp_path}/train/*.tfrecord"
    assert config.validation.eval_data_pattern == f"{tmp_path}/validate/*.tfrecord"
    assert flags.eval_config([f"--data={tmp_path}"]).eval_data_pattern == f"{tmp_path}/test/*.tfrecord"
    with pytest.raises(UsageError, match=r"several places.*'.*/test/\*\.tfrecord'"):
        flags.inference_config([f"--data={tmp_path}"])


def test_other_programs_check_theirs_too():
    with pytest.raises(UsageError, match="no file matches"):
        flags.eval_config(["--eval_data_pattern=/nowhere/*"])
    with pytest.raises(UsageError, match="no file matches"):
        flags.inference_config(["--input_data_pattern=/nowhere/*"])
    with pytest.raises(UsageError, match=r"--top_k\b.*at least 1\b"):
        flags.eval_config(["--top_k=0"])
    with pytest.raises(UsageError, match="--train_dir and --input_model_tgz"):
        flags.inference_config(["--train_dir=a", "--input_model_tgz=b.tgz"])


def test_hyper_parameters_of_runs_that_did_not_save_them_are_carried_along():
    config = flags.eval_config(["--moe_num_mixtures=4", "--run_once"])
    assert config.run_once
    assert config.hyper_parameters == {"moe_num_mixtures": 4}
