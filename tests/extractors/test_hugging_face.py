"""Features of tiny random networks of each family, compared with direct calls of transformers on the same pictures."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import made_videos
import numpy as np
import pytest
import tiny_networks

import yt8m
from yt8m import extractors
from yt8m.errors import UsageError
from yt8m.extractors import hub_networks
from yt8m.extractors.base import Clips, Scaling, Sound
from yt8m.extractors.decoding import Request, decode

pytestmark = pytest.mark.heavy  # torch, which `make test-all` installs


CODE = """
import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

class Config(PreTrainedConfig):
    model_type = "mine"

class Network(PreTrainedModel):
    config_class, main_input_name, input_modalities = Config, "pixel_values", ("image",)

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(3, 5, bias=False)
        self.post_init()

    def forward(self, pixel_values):
        colours = pixel_values.mean((2, 3))
        return BaseModelOutputWithPooling(last_hidden_state=colours[:, None], pooler_output=self.layer(colours))
"""


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The folder of the network of a family. The first one is called here, since torch leaves a thread and a folder."""
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("networks")
    written = {"ViT": tiny_networks.write(folder / "ViT", "ViT")}
    direct(written["ViT"], {"pixel_values": torch.zeros(1, 3, 32, 32)})

    def folder_of(family: str) -> str:
        if family not in written:
            written[family] = tiny_networks.write(folder / family, family)
        return written[family]

    return folder_of


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its tone rises."""

    def sound(seconds: np.ndarray) -> np.ndarray:
        return 0.4 * np.sin(2 * np.pi * (300 + 900 * seconds) * seconds)

    picture = made_videos.shape("stripes")
    return made_videos.write(tmp_path_factory.mktemp("video") / "clip.mp4", picture, sound, 3.6)


def decoded(path: str, kind: str, **more: Any) -> list[np.ndarray]:
    messages = decode(Request(path, **more))
    return [message.values for message in messages if message.kind == kind and message.values is not None]


def direct(folder: str, inputs: Any) -> Any:
    """The output of the network of a folder, called as its documentation says."""
    import torch
    import transformers

    network = transformers.AutoModel.from_pretrained(folder).eval()
    names = ("get_image_features", "get_audio_features")
    call = next((getattr(network, name) for name in names if hasattr(network, name)), network)
    with torch.no_grad():
        return call(**inputs)


def inputs_of(folder: str, path: str) -> Any:
    """The inputs that the network's own processor makes of the whole video."""
    import torch
    from transformers import AutoFeatureExtractor, AutoImageProcessor

    family = os.path.basename(folder)
    if family in ("AST", "CLAP"):
        rate, samples = (16000, 10240) if family == "AST" else (48000, 48000)
        windows = np.concatenate(decoded(path, "sound", sounds=(Sound(rate, samples, rate),)))
        processor = AutoFeatureExtractor.from_pretrained(folder)
        return processor(list(windows), sampling_rate=rate, return_tensors="pt")
    if family == "VideoMAE":
        clips = decoded(path, "clip", clips=(Clips(4, 7.5, 1.0, Scaling(0, 32, "bilinear")),))
        return AutoImageProcessor.from_pretrained(folder, backend="pil")(
            [list(one) for one in clips], return_tensors="pt"
        )
    if family == "V-JEPA 2":  # its processor needs torchvision; this is what it computes of scaled pictures
        clips = np.stack(decoded(path, "clip", clips=(Clips(4, 4.0, 1.0, Scaling(0, 36, "bilinear")),)))
        pixels = clips[:, :, 2:34, 8:40] / 255 - np.array([0.485, 0.456, 0.406])
        pixels = (pixels / np.array([0.229, 0.224, 0.225])).transpose(0, 1, 4, 2, 3)
        return {"pixel_values_videos": torch.tensor(pixels, dtype=torch.float32)}
    pictures = decoded(path, "picture", pictures=(None,))
    return AutoImageProcessor.from_pretrained(folder, backend="pil")(pictures, return_tensors="pt")


@pytest.mark.parametrize("family", tiny_networks.FAMILIES)
def test_features_are_those_of_a_direct_call(networks: Callable[[str], str], video: str, family: str) -> None:
    folder = networks(family)
    output = direct(folder, inputs_of(folder, video))
    pooled = getattr(output, "pooler_output", None)
    expected = (output.last_hidden_state.mean(1) if pooled is None else pooled).numpy()
    rows = yt8m.extract(video, extractors=[f"hf:{folder}"])[family]
    assert rows.shape == (4, expected.shape[1])
    assert np.abs(np.diff(rows[:3], axis=0)).max() > 1e-4
    np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.parametrize("family", ["ViT", "SigLIP", "CLAP"])
def test_pooling_may_be_the_mean_of_the_tokens(networks: Callable[[str], str], video: str, family: str) -> None:
    folder = networks(family)
    tokens = direct(folder, inputs_of(folder, video)).last_hidden_state.numpy()
    expected = tokens.mean(axis=(2, 3)) if tokens.ndim == 4 else tokens.mean(axis=1)
    rows = yt8m.extract(video, extractors=[f"hf:{folder}"], pooling="mean", feature_name="mine")["mine"]
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_a_pooler_without_weights_gives_the_first_token(
    networks: Callable[[str], str], video: str, tmp_path: pathlib.Path
) -> None:
    import transformers

    folder = networks("ViT")
    network = transformers.ViTModel.from_pretrained(folder, add_pooling_layer=False)
    for part in (network, transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")):
        part.save_pretrained(tmp_path / "bare")
    expected = direct(folder, inputs_of(folder, video)).last_hidden_state[:, 0].numpy()
    rows = yt8m.extract(video, extractors=[f"hf:{tmp_path}/bare"])["bare"]
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_numbers_of_fewer_bits_are_near(networks: Callable[[str], str], video: str) -> None:
    name = f"hf:{networks('ViT')}"
    exact = yt8m.extract(video, extractors=[name])["ViT"]
    rows = yt8m.extract(video, extractors=[name], hf_dtype="bfloat16", hf_device="cpu")["ViT"]
    np.testing.assert_allclose(rows, exact, atol=0.05)
    assert np.abs(rows - exact).max() > 0
    for device in ("nowhere", "cuda:7"):
        with pytest.raises(UsageError, match=f"hf_device='{device}' cannot[^\n]*$"):
            yt8m.extract(video, extractors=[name], hf_device=device)


def test_weights_that_are_missing_are_refused(
    networks: Callable[[str], str], video: str, tmp_path: pathlib.Path
) -> None:
    from safetensors import torch as safetensors

    shutil.copytree(networks("DINOv2"), tmp_path / "dino")
    path = tmp_path / "dino" / "model.safetensors"
    weights = safetensors.load_file(path)
    del weights["layernorm.weight"]
    safetensors.save_file(weights, path, {"format": "pt"})
    with pytest.raises(UsageError, match=r"lacks 1 .*weights.* layernorm\.weight"):
        yt8m.extract(video, extractors=[f"hf:{tmp_path}/dino"])


@pytest.mark.parametrize(
    ("file", "change", "problem"),
    [
        (
            "model.safetensors",
            lambda old: old[: len(old) // 2],
            "weights in .* are damaged or cut: .* Fetch them again",
        ),
        ("model.safetensors", lambda _: b"no weights" * 100, "weights in .* are damaged or cut"),
        ("config.json", lambda _: b"{no", "config.json is not a JSON file: .* Fetch it again"),
        ("config.json", lambda _: b"[]", r"config.json holds '\[\]'; expected settings"),
        ("preprocessor_config.json", lambda _: b"[]", r"preprocessor_config.json holds '\[\]'; expected settings"),
        ("config.json", lambda _: b"{}", "Should have a `model_type` key"),
        (
            "config.json",
            lambda old: old.replace(b'"intermediate_size": 32', b'"intermediate_size": 48'),
            r"has weights .* of the shape \[32\], but its config.json describes \[48\]",
        ),
        (
            "preprocessor_config.json",
            lambda _: b'{"image_processor_type": 5}',
            r"damaged .*processor: .*preprocessor_config\.json.*endswith",
        ),
        ("config.json", None, "there is no .*config.json, which describes the network"),
        ("preprocessor_config.json", None, r"does not say.*pictures or sound"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(
    networks: Callable[[str], str],
    video: str,
    tmp_path: pathlib.Path,
    file: str,
    change: Callable[[bytes], bytes] | None,
    problem: str,
) -> None:
    path = pathlib.Path(shutil.copytree(networks("ViT"), tmp_path / "damaged"), file)
    path.write_bytes(change(path.read_bytes())) if change else path.unlink()
    with pytest.raises(UsageError, match=problem) as refused:
        yt8m.extract(video, extractors=[f"hf:{tmp_path}/damaged"])
    assert "\n" not in str(refused.value)


def test_a_part_of_the_weights_that_is_missing_is_named(
    networks: Callable[[str], str], video: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pathlib.Path(shutil.copytree(networks("ViT"), tmp_path / "half"))
    (folder / "model.safetensors").rename(folder / "model-1-of-2.safetensors")
    parts = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(parts))
    problem = r"half lacks model-2-of-2.safetensors, which model.safetensors.index.json names. Fetch it again"
    with pytest.raises(UsageError, match=problem):
        yt8m.extract(video, extractors=[f"hf:{folder}"])
    monkeypatch.setattr(hub_networks, "_fetch_snapshot", lambda *_: str(folder))
    with pytest.raises(UsageError, match=r"lacks .* fetch the rest: yt8m extract .*hf:owner/half --fetch_weights"):
        yt8m.extract(video, extractors=["hf:owner/half"])


def test_a_network_that_writes_text_is_refused(video: str, tmp_path: pathlib.Path) -> None:
    import transformers

    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 8, "num_mel_bins": 16}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    network = transformers.WhisperModel(transformers.WhisperConfig(**sizes, **tokens))
    for part in (network, transformers.WhisperFeatureExtractor(feature_size=16)):
        part.save_pretrained(tmp_path / "speech")
    with pytest.raises(UsageError, match=r"WhisperModel, .*into text.* AST or CLAP"):
        yt8m.extract(video, extractors=[f"hf:{tmp_path}/speech"])


def test_pickled_weights_are_refused(networks: Callable[[str], str], video: str, tmp_path: pathlib.Path) -> None:
    import torch

    (tmp_path / "old").mkdir()
    torch.save({}, tmp_path / "old" / "pytorch_model.bin")
    (tmp_path / "old" / "config.json").write_bytes(pathlib.Path(networks("ViT"), "config.json").read_bytes())
    with pytest.raises(UsageError, match=r"no weights.*\.safetensors.*save_pretrained\(FOLDER\)"):
        yt8m.extract(video, extractors=[f"hf:{tmp_path}/old"])


def test_code_is_executed_only_if_it_is_trusted(
    networks: Callable[[str], str], video: str, tmp_path: pathlib.Path
) -> None:
    from safetensors import numpy as safetensors

    folder = tmp_path / "coded"
    folder.mkdir()
    code = {"AutoConfig": "mine.Config", "AutoModel": "mine.Network"}
    (folder / "config.json").write_text(json.dumps({"model_type": "mine", "auto_map": code}))
    processor = pathlib.Path(networks("ViT"), "preprocessor_config.json").read_text()
    (folder / "preprocessor_config.json").write_text(processor)
    matrix = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    safetensors.save_file({"layer.weight": matrix}, folder / "model.safetensors", {"format": "pt"})
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n" + CODE)
    name = f"hf:{folder}"
    with pytest.raises(UsageError, match="give trust_code=True"):
        yt8m.extract(video, extractors=[name])
    assert not (tmp_path / "ran").exists()
    rows = yt8m.extract(video, extractors=[name], trust_code=True)["coded"]
    assert (tmp_path / "ran").exists()
    colours = inputs_of(networks("ViT"), video)["pixel_values"].mean((2, 3)).numpy()
    np.testing.assert_allclose(rows, colours @ matrix.T, atol=1e-5)


def test_a_network_of_texts_is_refused(video: str, tmp_path: pathlib.Path) -> None:
    import transformers

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    transformers.BertModel(transformers.BertConfig(vocab_size=16, **sizes)).save_pretrained(tmp_path / "texts")
    with pytest.raises(UsageError, match=r"BertModel, .*neither pictures.*sound"):
        yt8m.extract(video, extractors=[f"hf:{tmp_path}/texts"])


def test_without_a_network_one_line_says_how_to_fetch(tmp_path: pathlib.Path) -> None:
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    words = ["extract", "--extractors=hf:google/siglip2-base-patch16-224", "--fetch_weights"]
    done = subprocess.run([sys.executable, "-m", "yt8m", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "yt8m extract --extractors=hf:google/siglip2-base-patch16-224 --fetch_weights" in line


def snapshot(cache: pathlib.Path, name: str, commit: str, source: str) -> None:
    """Puts a network into a cache as huggingface_hub does."""
    repository = cache / "hub" / f"models--{name.replace('/', '--')}"
    (repository / "snapshots").mkdir(parents=True, exist_ok=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(commit)
    os.symlink(source, repository / "snapshots" / commit)


def test_the_manifest_has_commit_and_sum_and_another_is_refused(
    networks: Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    first, second = "1" * 40, "2" * 40
    snapshot(tmp_path / "hf", "owner/tiny-vit", first, networks("ViT"))
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    made_videos.write_kinds(tmp_path, 3)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "yt8m", *words], env=environment, capture_output=True, text=True)

    words = ["extract", f"--videos={tmp_path}", "--labels=folder", f"--out={tmp_path}/data", "--splits=train:1"]
    words += ["--extractors=hf:owner/tiny-vit", "--level=video"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads((tmp_path / "data/video/train/manifest.json").read_text())["extractors"]
    assert (entry["name"], entry["feature"]) == ("hf:owner/tiny-vit", "tiny-vit")
    assert entry["settings"]["hf_revision"] == first
    assert "hf_device" not in entry["settings"]
    assert len(entry["weights"]["hf_model"]) == 64
    snapshot(tmp_path / "hf", "owner/tiny-vit", second, tiny_networks.write(tmp_path / "other", "ViT", seed=1))
    again = run(*words)
    assert again.returncode == 2
    assert "other files" in again.stderr
    assert run(*words, f"--hf_revision={first}").returncode == 0


@pytest.mark.parametrize("setting", [{"clip_rate": 4.0}, {"clip_hop": 2.0}, {"sound_seconds": 1.0}])
def test_settings_of_another_form_are_refused(
    networks: Callable[[str], str], video: str, setting: dict[str, float]
) -> None:
    ((name, value),) = setting.items()
    with pytest.raises(UsageError, match=rf"{name}={value} .*no effect: ViT .*pictures, not"):
        yt8m.extract(video, extractors=[f"hf:{networks('ViT')}"], **setting)
    if name != "sound_seconds":
        both = [f"hf:{networks('ViT')}", f"hf:{networks('VideoMAE')}"]
        assert set(yt8m.extract(video, extractors=both, **setting)) == {"ViT", "VideoMAE"}


@pytest.mark.parametrize(("seconds", "problem"), [(0.001, "expected at least 0.1"), (1e5, "must be at most 600")])
def test_windows_of_sound_are_neither_tiny_nor_huge(
    networks: Callable[[str], str], video: str, seconds: float, problem: str
) -> None:
    with pytest.raises(UsageError, match=f"sound_seconds.*{problem}"):
        yt8m.extract(video, extractors=[f"hf:{networks('AST')}"], sound_seconds=seconds)


def test_a_revision_of_a_folder_is_refused(video: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"hf_revision='v1' .*huggingface\.co"):
        yt8m.extract(video, extractors=[f"hf:{tmp_path}"], hf_revision="v1")


def test_names_and_settings() -> None:
    network = extractors.create("hf:google/siglip2-base-patch16-224", {"clip_hop": 2.0})
    assert network.feature == "siglip2-base-patch16-224"
    assert network.settings()["clip_hop"] == 2.0
    with pytest.raises(UsageError, match="hf_dtype"):
        extractors.create("hf:x", {"hf_dtype": "int8"})
