"""Extractors that are networks of Hugging Face's library transformers: of pictures, of clips or of sound.

A network of pictures and text, such as SigLIP or CLIP, also gives a classifier of its features without training: it
computes a vector for each text that describes a class, and these vectors give the weights of the classifier.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line, missing_extra
from yt8m.extractors import hub_networks
from yt8m.extractors.base import (
    Clips,
    Compute,
    Extractor,
    OpenedExtractor,
    Sound,
    named,
    option_of,
    refuse_settings_of_other_forms,
    weights,
)
from yt8m.extractors.hub_networks import Processor, processor_of
from yt8m.options import option

_TEXTS_AT_ONCE = 256

# The cosine at which the score of a network without a bias is 0.5. With CLIP, the cosines of pictures and their texts
# lie between 0 and 0.4 (Hessel et al. 2021, CLIPScore), and its scale is 100: without this, the sigmoid of most logits
# would be 1.0 in float32, and classes could no longer be ranked.
EVEN_COSINE = 0.25


@named("hf")
@dataclass(frozen=True)
class HuggingFaceNetwork(Extractor):
    """A network of transformers with its own processor; its configuration says what it takes."""

    file_field: ClassVar[str] = "hf_model"
    free_settings: ClassVar[tuple[str, ...]] = ("hf_device",)

    hf_model: str = weights(
        "folder, or name on huggingface.co, of the network of an extractor hf:NAME, if it has moved"
    )
    hf_revision: str = option("", "branch, tag or commit of the network on huggingface.co [main]")
    hf_dtype: str = option(
        "float32", "numbers that the network computes with", choices=("float32", "bfloat16", "float16")
    )
    hf_device: str = option("", "where the network computes, such as cpu or cuda:1 [a GPU if there is one]")
    feature_name: str = option("", "name of the feature [the name of the network without its owner]")
    pooling: str = option(
        "output", "the row is the network's pooled output, or the mean of its tokens", choices=("output", "mean")
    )
    clip_rate: float = option_of(
        Clips,
        0.0,
        "pictures a second of a clip [as in the training of known families, such as 4 of V-JEPA 2, else 8]",
        minimum=0,
        maximum=1000,
    )
    clip_hop: float = option_of(Clips, 1.0, "seconds from one clip to the next", minimum=0.001)
    sound_seconds: float = option_of(
        Sound, 0.0, "length of a window of sound [as the network takes it, or 10]", minimum=0, maximum=600
    )
    trust_code: bool = option(False, "execute the code that the network's folder or repository brings")

    @property
    def feature(self) -> str:  # type: ignore[override]
        """The given name, or else that of the network."""
        return self.feature_name or os.path.basename(self.hf_model.rstrip("/"))

    def located(self, path: str) -> tuple[str, dict[str, Any]]:
        """See `Extractor`; the commit of a repository is fixed."""
        folder, commit = hub_networks.locate(path, self.hf_revision, with_code=self.trust_code)
        return folder, {"hf_revision": commit}

    def refuse_unused(self) -> None:
        """See `Extractor`."""
        if self.hf_revision and storage.is_dir(self.hf_model):
            raise UsageError(
                f"--hf_revision={self.hf_revision} chooses a revision of a repository on huggingface.co, but "
                f"{self.hf_model} is a folder here: leave it out, or name the repository."
            )

    def files_of(self, path: str) -> list[str]:
        """See `Extractor`."""
        return hub_networks.files_of(path, with_code=self.trust_code)

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        """See `Extractor`."""
        transformers, name = hub_networks.import_transformers(f"hf:{self.hf_model}"), f"hf:{self.hf_model}"
        import torch

        device, folder = _usable_device(torch, self.hf_device), weights["hf_model"]
        with about_network(name):
            network, has_pooler = load_network(transformers, folder, getattr(torch, self.hf_dtype), self.trust_code)
            processor = self.processor(transformers, network, folder)
            network = network.to(device).eval()

        def compute(values: NDArray[Any]) -> NDArray[np.float32]:
            with torch.inference_mode(), about_network(name):
                inputs = {
                    key: value.to(device, network.dtype if value.is_floating_point() else None)
                    for key, value in processor.prepare(values).items()
                }
                output = processor.call(**inputs)
                return np.asarray(_rows(output, self.pooling, has_pooler).float().cpu().numpy(), np.float32)

        yield OpenedExtractor(compute, processor.form)

    def processor(self, transformers: Any, network: Any, folder: str) -> Processor:
        """The processor of the network in a folder; raises like `processor_of`."""
        return processor_of(transformers, network, folder, self.settings())


def _usable_device(torch: Any, device: str) -> str:
    """The device where a network computes.

    Raises:
      UsageError: there is no such device here.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # a build without CUDA asserts
        raise UsageError(f"--hf_device={device} cannot be used here: {first_line(error)[:200]}.") from error
    return device


def load_network(transformers: Any, folder: str, dtype: Any, trust_code: bool) -> tuple[Any, bool]:
    """The network in a folder, and whether its pooler was trained.

    Raises:
      UsageError: weights are missing, damaged, or of another network.
    """
    import safetensors

    hub_networks.read_settings(storage.join(folder, "config.json"))
    try:
        network, info = transformers.AutoModel.from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=trust_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, by name
        )
    except safetensors.SafetensorError as error:
        raise UsageError(f"weights in {folder} are damaged or cut: {first_line(error)}. Fetch them again.") from error
    for key, stored, expected in sorted(info["mismatched_keys"]):
        raise UsageError(
            f"{folder} has weights {key} of the shape {list(stored)}, but its config.json describes {list(expected)}; "
            "fetch both again."
        )
    missing = sorted(info["missing_keys"])
    others = [key for key in missing if "pooler" not in key]
    if others:
        raise UsageError(f"{folder} lacks {len(others)} of the network's weights, such as {others[0]}; fetch it again.")
    return network, not missing


def _rows(output: Any, pooling: str, has_pooler: bool) -> Any:
    """A row for each input, [N, size], from the output of a network."""
    pooled, tokens = getattr(output, "pooler_output", None), output.last_hidden_state
    if pooling == "output" and pooled is not None:
        # If the file has no weights of the pooler, transformers fills it with random ones. Then we take the first
        # token, which is the input of the pooler.
        return pooled.flatten(1) if has_pooler else tokens[:, 0]
    return tokens.flatten(2).mean(2) if tokens.ndim == 4 else tokens.mean(1)


@contextlib.contextmanager
def about_network(name: str) -> Iterator[None]:
    """Turns errors of transformers and torch into one line."""
    try:
        yield
    except UsageError:
        raise
    except (OSError, ValueError, ImportError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ImportError) and "sentencepiece" in str(error).lower():
            raise missing_extra(f"extractor {name}", "sentencepiece", "hf") from error
        hint = " If you trust its code, add --trust_code." if "trust_remote_code" in str(error) else ""
        raise UsageError(f"extractor {name}: {first_line(error)[:300]}{hint}") from error
    except RuntimeError as error:  # of torch: memory, devices, kernels
        raise RunError(f"extractor {name}: {first_line(error)[:300]}") from error


class TextClassifier(NamedTuple):
    """The logits of features x of unit length are x @ weights + biases.

    Attributes:
      weights: float32 [D, C], the unit vectors of the classes times the network's scale.
      biases: float32 [C], the network's bias; -EVEN_COSINE * scale if it has none.
      has_bias: whether the network has a bias, so that the sigmoid of a logit is the network's own probability.
    """

    weights: NDArray[np.float32]
    biases: NDArray[np.float32]
    has_bias: bool


def text_classifier(extractor: HuggingFaceNetwork, folder: str, prompts: Sequence[Sequence[str]]) -> TextClassifier:
    """The classifier of classes that these texts describe.

    The logit of a picture and a text is scale * cos(picture, text) + bias (Zhai et al. 2023, Sigmoid Loss for Language
    Image Pre-Training). CLIP (Radford et al. 2021) has no bias, since it compares the texts of a picture with each
    other; then all logits are smaller than the network's own by EVEN_COSINE * scale. Several texts of a class are
    averaged as unit vectors.

    Args:
      extractor: the extractor.
      folder: the folder of its network.
      prompts: the texts of each class.

    Raises:
      UsageError: the network takes no texts, or lacks a part.
    """
    name = f"hf:{extractor.hf_model}"
    transformers = hub_networks.import_transformers(name)
    import torch

    with about_network(name), torch.inference_mode():
        network, _ = load_network(transformers, folder, torch.float32, extractor.trust_code)
        if not all(hasattr(network, part) for part in ("get_image_features", "get_text_features", "logit_scale")):
            raise UsageError(
                f"{type(network).__name__} does not compare pictures with texts. Take a network such as SigLIP or CLIP."
            )
        form = extractor.processor(transformers, network, folder).form  # without it the run could not be used
        refuse_settings_of_other_forms([extractor], [form])
        tokenizer = _tokenizer(transformers, folder, trust_code=extractor.trust_code)
        texts = [text for of_class in prompts for text in of_class]
        batches = [texts[start : start + _TEXTS_AT_ONCE] for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        vectors = torch.cat([_text_vectors(network.eval(), tokenizer, batch) for batch in batches]).numpy()
        scale, bias = network.logit_scale.exp().item(), getattr(network, "logit_bias", None)
    ends = np.cumsum([len(of_class) for of_class in prompts])[:-1]
    means = np.stack([part.mean(axis=0) for part in np.split(vectors, ends)])
    weights = scale * means / np.linalg.norm(means, axis=1, keepdims=True)
    biases = np.full(len(prompts), -EVEN_COSINE * scale if bias is None else bias.item(), np.float32)
    return TextClassifier(weights.T.astype(np.float32), biases, bias is not None)


def _tokenizer(transformers: Any, folder: str, *, trust_code: bool) -> Any:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_code
        )
        tokenizer("a word")  # special tokens that it does not know are noticed here
        return tokenizer
    except Exception as error:  # the library tokenizers raises nothing more special
        if isinstance(error, ImportError) or "trust_remote_code" in str(error):
            raise
        raise UsageError(
            f"{folder} has no tokenizer that can be read: expected tokenizer_config.json, and tokenizer.json or a file "
            f"of its own kind, as the network's repository has them ({first_line(error)[:200]})."
        ) from error


def _text_vectors(network: Any, tokenizer: Any, texts: Sequence[str]) -> Any:
    """The unit vectors [N, D] of texts.

    SigLIP and SigLIP 2 were trained on texts in lower case, filled up to the full length, without a mask (google-
    research/big_vision, configs of siglip). Not every tokenizer of theirs makes letters small by itself.
    """
    is_siglip = "siglip" in network.config.model_type
    texts, fill = ([text.lower() for text in texts], "max_length") if is_siglip else (list(texts), True)
    longest = network.config.text_config.max_position_embeddings
    tokens = tokenizer(texts, padding=fill, truncation=True, max_length=longest, return_tensors="pt")
    tokens.pop("token_type_ids", None)
    if is_siglip:
        tokens.pop("attention_mask", None)
    vectors = network.get_text_features(**tokens).pooler_output
    return vectors / vectors.norm(dim=-1, keepdim=True)
