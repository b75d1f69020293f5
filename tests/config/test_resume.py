"""What a later start of a run may change: each option, its model's and its loss's hyper-parameters."""

from __future__ import annotations

import dataclasses
import pathlib
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import small_run
from tiny_workload import TinyModeler

from yt8m import losses, models, options
from yt8m.config import resume, run_dir, train_config
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import Checked, DeviceConfig, DistillConfig, ModelConfig, OptimizerConfig, TrainConfig
from yt8m.errors import UsageError
from yt8m.options import option
from yt8m.readers import BatchQueue, YT8MFrameFeatureReader
from yt8m.runner import Runner, creation
from yt8m.training import training_run, training_workload
from yt8m.video.workload import Workload

MOE = TrainConfig(model=ModelConfig("MoeModel", {"moe_num_mixtures": 4, "l2_penalty": 1e-8}))
REFUSED = (
    "data.feature_names data.feature_sizes data.frame_features data.film_mean data.num_classes model.model train_only"
)
ANEW = (
    "data.segment_labels data.segment_size data.batch_size data.num_readers data.parse_threads data.prefetch "
    "data.num_epochs data.shuffle_buffer data.balance data.cache data.max_bad_records data.nan_policy data.reader "
    "devices.num_gpu seed"
)
REBUILT = (
    "data.max_frames data.feature_ranges devices.prefetch_to_device model.label_loss "
    "devices.precision devices.sync_batch_norm "
    "distillation.distill_from distillation.teacher distillation.distill_weight "
    "augmentation.augment_crop augmentation.augment_frame_dropout augmentation.augment_noise "
    "augmentation.mixup "
    "optimizer.optimizer optimizer.base_learning_rate optimizer.learning_rate_schedule "
    "optimizer.learning_rate_decay optimizer.learning_rate_decay_examples "
    "optimizer.learning_rate_warmup_examples optimizer.weight_decay optimizer.clip_gradient_norm "
    "optimizer.clip_by optimizer.accumulate_steps optimizer.regularization_penalty "
    "optimizer.combine_gradients optimizer.moving_average_decay"
)
# The data take the seed of the run.
NOTHING = (
    "train_dir data.data_pattern data.vocabulary data.seed checkpoints.exact_resume data.manifest devices.xla "
    "devices.log_device_placement devices.profile checkpoints.save_checkpoint_steps "
    "checkpoints.save_checkpoint_minutes checkpoints.keep_checkpoints checkpoints.export_model_steps "
    "checkpoints.start_new_model callbacks max_steps log_every_n_steps save_summary_steps init_from rename export_dir "
    "log_dir distributed.sync_replicas distributed.stall_timeout validation.eval_data_pattern "
    "validation.eval_every_n_epochs validation.eval_every_n_steps validation.eval_max_videos validation.best_metric "
    "validation.patience storage.cache_dir storage.stage_cache_bytes storage.gs_reading storage.gs_retry_seconds"
)
EXPECTED = {
    name: effect
    for effect, names in (
        ("refused", REFUSED),
        ("rebuilt, input anew", ANEW),
        ("rebuilt", REBUILT),
        ("nothing", NOTHING),
    )
    for name in names.split()
}
RUN = TrainConfig(
    train_dir="runs/a",
    data=DataConfig("train*", frame_features=True),
    model=ModelConfig("LstmModel"),
    optimizer=OptimizerConfig("AdamWOptimizer"),
    distillation=DistillConfig(distill_from="teacher.csv"),
)


def unchecked(config: Any, **changed: Any) -> Any:
    """A copy with other values, whether they go together or not."""
    copy = object.__new__(type(config))
    copy.__dict__.update(vars(config) | changed)
    return copy


def with_other_value(config: Any, path: str) -> Any:
    section, _, rest = path.partition(".")
    value = getattr(config, section)
    if rest:
        return unchecked(config, **{section: with_other_value(value, rest)})
    field = config.__dataclass_fields__[section]
    choices = [choice for choice in field.metadata["choices"] if choice != value]
    others: dict[str, Callable[[], Any]] = {
        "bool": lambda: not value,
        "str": lambda: {"model": "MoeModel", "label_loss": "HingeLoss"}.get(section, "other"),
        "tuple[str, ...]": lambda: ("other",),
        "tuple[int, ...]": lambda: (1, 2),
        "float": lambda: value / 2 if value else 0.25,
    }
    kind = str(field.type).removesuffix(" | None")
    return unchecked(config, **{section: choices[0] if choices else others.get(kind, lambda: (value or 0) + 3)()})


def order_of_examples(config: TrainConfig) -> dict[str, Any]:
    queue = BatchQueue(YT8MFrameFeatureReader(), "train*", config.data.batch_size)
    queue.example_order = options.order_of_examples(options.shaping(config.data))
    return Runner(training_run.runner_config(config), queue, TinyModeler())._example_order()


def effect(old: TrainConfig, new: TrainConfig) -> str:
    try:
        resume.refuse_other_model("runs/a", resume.list_changes(run_dir.SavedRun(old, False), new))
    except UsageError:
        return "refused"
    before, after = training_run.runner_config(old), training_run.runner_config(new)
    found = []
    if creation.graph_signature(before) != creation.graph_signature(after):
        found.append("rebuilt")
    if order_of_examples(old) != order_of_examples(new):
        found.append("input anew")
    return ", ".join(found) or "nothing"


# The expected effect of an option that EXPECTED does not list, by the `shapes=` that it declares.
DECLARED = {"variables": "refused", "graph": "rebuilt", "input": "rebuilt, input anew", "nothing": "nothing"}


def test_each_option_of_a_run_has_the_effect_that_is_listed_here_or_that_a_new_one_declares():
    declared = {one.name: DECLARED[one.shapes] for one in options.shaping(RUN)}
    assert EXPECTED.keys() <= declared.keys()
    assert {name: effect(RUN, with_other_value(RUN, name)) for name in declared} == declared | EXPECTED


def hyper_parameters(catalogue: Any) -> list[tuple[str, str]]:
    names = catalogue.built_in_names()
    return [(name, option) for name in names for option in catalogue.hyper_parameters(catalogue.get(name))]


def test_each_hyper_parameter_of_a_model_makes_another_model_but_for_the_kernel_of_an_lstm():
    def run(model: str, **values: Any) -> TrainConfig:
        return dataclasses.replace(RUN, model=ModelConfig(model, values))

    found = {
        (name, one): effect(run(name, **{one: 1}), run(name, **{one: 2})) for name, one in hyper_parameters(models)
    }
    kernels = {key for key in found if key[1] == "lstm_kernel"}
    assert {key for key, what in found.items() if what == "rebuilt"} == kernels
    assert {key for key, what in found.items() if what == "refused"} == found.keys() - kernels
    assert len(kernels) == 2


def test_each_hyper_parameter_of_a_loss_takes_effect_in_a_rebuilt_graph():
    def run(loss: str, **values: Any) -> TrainConfig:
        return dataclasses.replace(RUN, model=ModelConfig("LstmModel", {}, loss, values))

    found = [effect(run(name, **{one: 1}), run(name, **{one: 2})) for name, one in hyper_parameters(losses)]
    assert len(found) >= 8
    assert set(found) == {"rebuilt"}


def test_an_option_of_a_run_that_does_not_say_what_it_shapes_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Silent(Checked):
        knob: float = option(1.0, "something new")

    with pytest.raises(TypeError, match=r"Silent\.knob\b.*shapes"):
        list(options.shaping(Silent()))


def test_a_limit_counts_by_being_there_only():
    one, two = (dataclasses.replace(RUN, data=DataConfig("a", max_bad_records=count)) for count in (1, 2))
    assert effect(one, two) == "nothing"


@dataclasses.dataclass(frozen=True)
class ScaledDeviceConfig(DeviceConfig):
    loss_scale: float = option(1.0, "factor of the loss", shapes="graph")


@pytest.mark.heavy
def test_a_new_option_that_the_modeler_uses_rebuilds_the_graph(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Added to a section by one line, it has a flag, is saved, and takes effect when it is changed."""
    create = training_workload.create_training

    def create_scaled(config: Any, *opened: Any) -> Workload:
        parts = create(config, *opened)
        build, scale = parts.modeler.build, config.devices.loss_scale

        def build_scaled(*args: Any, **given: Any) -> Any:
            output = build(*args, **given)
            return dataclasses.replace(output, loss=output.loss * scale, loss_gradients=())

        monkeypatch.setattr(parts.modeler, "build", build_scaled, raising=False)
        return parts

    monkeypatch.setattr(train_config, "DeviceConfig", ScaledDeviceConfig)
    monkeypatch.setattr(options, "_cached_hints", weakref.WeakKeyDictionary())  # as in a new process
    monkeypatch.setattr(training_workload, "create_training", create_scaled)
    assert small_run.run(tmp_path, "--max_steps=4") == 0
    assert small_run.run(tmp_path, "--max_steps=8") == 0
    assert "graph saved" in capfd.readouterr().err
    assert small_run.run(tmp_path, "--max_steps=12", "--loss_scale=100") == 0
    assert "graph is rebuilt" in (said := capfd.readouterr().err)
    assert "model.ckpt-8: loss_scale was 1.0 and is 100.0" in said
    found = small_run.losses(tmp_path)
    assert found[9] > 20 * found[8]


def saved(config: TrainConfig, published: bool = False) -> run_dir.SavedRun:
    return run_dir.SavedRun(config, published)


def test_nothing_changed_is_no_change():
    assert resume.list_changes(saved(MOE), MOE) == []


@pytest.mark.parametrize(
    ("new", "shown"),
    [
        (TrainConfig(model=ModelConfig("LogisticModel", {})), "model: MoeModel -> LogisticModel"),
        (
            TrainConfig(model=ModelConfig("MoeModel", {"moe_num_mixtures": 2, "l2_penalty": 1e-8})),
            "moe_num_mixtures: 4 -> 2",
        ),
        (dataclasses.replace(MOE, data=DataConfig(num_classes=10)), "num_classes: 3862 -> 10"),
        (
            dataclasses.replace(MOE, data=DataConfig(feature_names=("mean_rgb",), feature_sizes=(1024,))),
            "feature_names: mean_rgb,mean_audio -> mean_rgb; feature_sizes: 1024,128 -> 1024",
        ),
        (dataclasses.replace(MOE, data=DataConfig(frame_features=True)), "frame_features: False -> True"),
    ],
)
def test_another_model_is_refused_with_the_difference_named(new, shown):
    with pytest.raises(UsageError) as refusal:
        resume.refuse_other_model("runs/first", resume.list_changes(saved(MOE), new))
    assert f"({shown})" in str(refusal.value)
    assert "runs/first" in str(refusal.value)
    assert "--start_new_model" in str(refusal.value)


def test_what_a_published_run_did_not_save_is_no_change():
    old = TrainConfig(model=ModelConfig("MoeModel", {}))
    new = dataclasses.replace(MOE, data=DataConfig(num_classes=10))
    assert resume.list_changes(saved(old, published=True), new) == []


def test_a_change_is_told_by_the_name_of_its_flag():
    assert str(resume.Change("data.data_pattern", "nothing", "a", ("b", "c"))) == "train_data_pattern: a -> b,c"
    assert str(resume.Change("model.hyper_parameters.units", "variables", 2, 3)) == "units: 2 -> 3"
