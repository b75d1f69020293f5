"""Tiny networks of Hugging Face's transformers with random weights, and their processors, in folders."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

WORDS = ("a", "video", "photo", "of", "disc", "square", "stripes", "moving", "red", "thing")
_LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_SIZES: dict[str, Any] = {"hidden_size": 16, **_LAYERS}
_PICTURES: dict[str, Any] = {"image_size": 32, "patch_size": 8}
_SQUARE = {"height": 32, "width": 32}


def _vit(t: Any) -> list[Any]:
    return [t.ViTModel(t.ViTConfig(**_SIZES, **_PICTURES)), t.ViTImageProcessorPil(size=_SQUARE)]


def _dinov2(t: Any) -> list[Any]:
    config = t.Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, **_PICTURES)
    processor = t.BitImageProcessorPil(size={"shortest_edge": 40}, crop_size=_SQUARE)
    return [t.Dinov2Model(config), processor]


def _with_text(t: Any, family: str) -> list[Any]:
    text = {**_SIZES, "vocab_size": 16, "max_position_embeddings": 12, "pad_token_id": 0}
    text |= {"bos_token_id": 1, "eos_token_id": 2, "projection_size": 16}
    sizes = {"text_config": text, "vision_config": {**_SIZES, **_PICTURES}}
    if family == "SigLIP":
        network = t.SiglipModel(t.SiglipConfig(**sizes))
        network.logit_scale.data.fill_(2.3)
        network.logit_bias.data.fill_(-1.7)
        return [network, t.SiglipImageProcessorPil(size=_SQUARE), tokenizer(t)]
    network = t.CLIPModel(t.CLIPConfig(**sizes, projection_dim=12))
    return [network, t.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=_SQUARE), tokenizer(t)]


def tokenizer(t: Any) -> Any:
    """A tokenizer whose tokens are the words; it appends an end of text, as the text encoder of CLIP expects."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {word: number for number, word in enumerate(("<pad>", "<bos>", "<eos>", "<unk>", *WORDS))}
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 2)])
    special = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return t.PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=12, **special)


def _videomae(t: Any) -> list[Any]:
    config = t.VideoMAEConfig(num_frames=4, tubelet_size=2, **_SIZES, **_PICTURES)
    processor = t.VideoMAEImageProcessorPil(size={"shortest_edge": 32}, crop_size=_SQUARE)
    return [t.VideoMAEModel(config), processor]


def _vjepa2(t: Any) -> list[Any]:
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2}
    predictor = {"pred_hidden_size": 24, "pred_num_hidden_layers": 1, "pred_num_attention_heads": 2}
    config = t.VJEPA2Config(crop_size=32, patch_size=8, frames_per_clip=4, tubelet_size=2, **sizes, **predictor)
    return [t.VJEPA2Model(config)]


def _ast(t: Any) -> list[Any]:
    config = t.ASTConfig(**_SIZES, patch_size=8, time_stride=8, frequency_stride=8, num_mel_bins=16, max_length=64)
    return [t.ASTModel(config), t.ASTFeatureExtractor(num_mel_bins=16, max_length=64)]


def _clap(t: Any) -> list[Any]:
    audio = {"spec_size": 64, "window_size": 4, "num_mel_bins": 16, "patch_size": 2, "patch_stride": [2, 2]}
    audio |= {"freq_ratio": 2, "patch_embeds_hidden_size": 16, "depths": [2, 2], "num_attention_heads": [2, 2]}
    audio |= {"hidden_size": 32, "projection_dim": 12, "num_hidden_layers": 2}
    text = {**_SIZES, "vocab_size": 16, "max_position_embeddings": 16, "projection_dim": 12, "pad_token_id": 0}
    config = t.ClapConfig(text_config=text, audio_config=audio, projection_dim=12)
    extractor = t.ClapFeatureExtractor(feature_size=16, max_length_s=1, truncation="rand_trunc")
    return [t.ClapModel(config), extractor]


FAMILIES: dict[str, Callable[[Any], list[Any]]] = {
    "ViT": _vit,
    "CLIP": lambda t: _with_text(t, "CLIP"),
    "SigLIP": lambda t: _with_text(t, "SigLIP"),
    "DINOv2": _dinov2,
    "VideoMAE": _videomae,
    "V-JEPA 2": _vjepa2,
    "AST": _ast,
    "CLAP": _clap,
}
_VIDEO_PROCESSOR = """{"video_processor_type": "VJEPA2VideoProcessor", "do_resize": true, "size": {"shortest_edge": 36},
"resample": 2, "do_center_crop": true, "crop_size": {"height": 32, "width": 32}, "do_rescale": true,
"rescale_factor": 0.00392156862745098, "do_normalize": true, "image_mean": [0.485, 0.456, 0.406],
"image_std": [0.229, 0.224, 0.225]}"""


def write(folder: pathlib.Path, family: str, seed: int = 0) -> str:
    """Writes a network of a family and its processor into a folder; returns the folder."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()  # which starts a thread that stays
    torch.manual_seed(seed)
    for made in FAMILIES[family](transformers):
        if isinstance(made, torch.nn.Module):
            for parameter in made.parameters():
                torch.nn.init.normal_(parameter, std=0.2) if parameter.ndim else None
        made.save_pretrained(folder)
    if family == "V-JEPA 2":
        (folder / "video_preprocessor_config.json").write_text(_VIDEO_PROCESSOR)
    return str(folder)
