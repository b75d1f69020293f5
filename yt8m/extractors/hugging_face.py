"""Extractors that are networks for Hugging Face's library transformers. They take pictures, clips or sound.

From a network that takes pictures and texts, such as SigLIP or CLIP, `text_classifier` makes a zero-shot classifier: it
classifies the network's features without training. The network computes a vector for each text that describes a class,
and these vectors are the weights of the classifier.
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
    form_option,
    named,
    refuse_settings_of_other_forms,
    weights,
)
from yt8m.extractors.hub_networks import Processor, processor_of
from yt8m.options import option

_TEXTS_AT_ONCE = 256  # number of texts in a batch

# For a network without a bias, the cosine of picture and text at which the score is 0.5. With CLIP, the cosines of
# pictures and their texts lie between 0 and 0.4 (Hessel et al. 2021, CLIPScore), and the scale is 100. Without this
# offset, the sigmoid of most logits would be 1.0 in float32, and classes could not be ranked.
EVEN_COSINE = 0.25


@named("hf")
@dataclass(frozen=True)
class HuggingFaceNetwork(Extractor):
    """A network that Hugging Face's library transformers loads.

    The network's files say whether it takes pictures, clips or sound, and how to prepare these inputs.
    """

    file_field: ClassVar[str] = "hf_model"
    free_settings: ClassVar[tuple[str, ...]] = ("hf_device",)

    hf_model: str = weights(
        "folder of the network, or its name on huggingface.co, if NAME of the extractor hf:NAME is out of date"
    )
    hf_revision: str = option("", "branch, tag or commit of the network on huggingface.co [main]")
    hf_dtype: str = option(
        "float32", "type of the numbers that the network computes with", choices=("float32", "bfloat16", "float16")
    )
    hf_device: str = option("", "device that computes the network, such as cpu or cuda:1 [a GPU if there is one]")
    feature_name: str = option("", "name of the feature [the name of the network without its owner]")
    pooling: str = option(
        "output", "the feature is the network's pooled output, or the mean of its tokens", choices=("output", "mean")
    )
    clip_rate: float = form_option(
        Clips,
        0.0,
        "pictures per second of a clip [as in the training of known families, such as 4 for V-JEPA 2, else 8]",
        minimum=0,
        maximum=1000,
    )
    clip_hop: float = form_option(Clips, 1.0, "seconds from one clip to the next", minimum=0.001)
    sound_seconds: float = form_option(
        Sound, 0.0, "length of a window of sound in seconds [the network's own, or 10]", minimum=0, maximum=600
    )
    trust_code: bool = option(False, "execute Python code from the network's folder or repository")

    @property
    def feature(self) -> str:  # type: ignore[override]
        """The user's name for the feature, or else the name of the network."""
        return self.feature_name or os.path.basename(self.hf_model.rstrip("/"))

    def locate_weights(self, path: str) -> tuple[str, dict[str, Any]]:
        """See `Extractor`; `hf_revision` becomes the commit that is found, empty for a folder that the user named."""
        if storage.exists(path) and not storage.is_dir(path):
            raise UsageError(f"{storage.why_no_folder(path)}; name the folder that save_pretrained wrote.")
        folder, commit = hub_networks.locate_network(path, self.hf_revision, with_code=self.trust_code)
        return folder, {"hf_revision": commit}

    def refuse_unused(self) -> None:
        """See `Extractor`."""
        if self.hf_revision and storage.is_dir(self.hf_model):
            raise UsageError(
                f"--hf_revision={self.hf_revision} chooses a revision of a repository on huggingface.co, but "
                f"{self.hf_model} is a local folder: leave out --hf_revision, or name the repository."
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
        with explain_errors(name):
            network, has_pooler = load_network(transformers, folder, getattr(torch, self.hf_dtype), self.trust_code)
            processor = self.processor(transformers, network, folder)
            network = network.to(device).eval()

        def compute(values: NDArray[Any]) -> NDArray[np.float32]:
            with torch.inference_mode(), explain_errors(name):
                inputs = {
                    key: value.to(device, network.dtype if value.is_floating_point() else None)
                    for key, value in processor.prepare(values).items()
                }
                output = processor.call(**inputs)
                return np.asarray(_pool_output(output, self.pooling, has_pooler).float().cpu().numpy(), np.float32)

        yield OpenedExtractor(compute, processor.form)

    def processor(self, transformers: Any, network: Any, folder: str) -> Processor:
        """The processor of a network, which prepares its inputs; for arguments and errors see `processor_of`."""
        return processor_of(transformers, network, folder, self.settings())


def _usable_device(torch: Any, device: str) -> str:
    """Checks the device that is to compute a network; returns its name.

    Args:
      device: the user's choice; empty for a GPU if there is one, else the CPU.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # a build without CUDA asserts
        raise UsageError(f"--hf_device={device} cannot be used here: {first_line(error)[:200]}.") from error
    return device


def load_network(transformers: Any, folder: str, dtype: Any, trust_code: bool) -> tuple[Any, bool]:
    """Loads the network in a folder."""
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
            ignore_mismatched_sizes=True,  # the code below refuses them, and names the weights
        )
    except safetensors.SafetensorError as error:
        raise UsageError(f"weights in {folder} are damaged or cut: {first_line(error)}. Fetch them again.") from error
    for key, stored, expected in sorted(info["mismatched_keys"]):
        raise UsageError(
            f"{folder} has weights {key} of the shape {list(stored)}, but its config.json describes {list(expected)}; "
            "fetch both again."
        )
    missing = sorted(info["missing_keys"])
    missing_weights = [key for key in missing if "pooler" not in key]
    if missing_weights:
        raise UsageError(
            f"{folder} lacks {len(missing_weights)} of the network's weights, such as {missing_weights[0]}; "
            "fetch it again."
        )
    return network, not missing


def _pool_output(output: Any, pooling: str, has_pooler: bool) -> Any:
    """Reduces the output of a network to one row for each input, [N, size]."""
    pooled, tokens = getattr(output, "pooler_output", None), output.last_hidden_state
    if pooling == "output" and pooled is not None:
        # If the files have no weights for the pooler, transformers initialises it randomly. Then the first token is the
        # feature, because it is the input of the pooler.
        return pooled.flatten(1) if has_pooler else tokens[:, 0]
    return tokens.flatten(2).mean(2) if tokens.ndim == 4 else tokens.mean(1)


@contextlib.contextmanager
def explain_errors(name: str) -> Iterator[None]:
    """Turns errors of transformers and torch into a `UsageError` or `RunError` that names the extractor `name`."""
    try:
        yield
    except (UsageError, RunError):
        raise
    except (RuntimeError, MemoryError) as error:  # torch's errors about memory, devices and kernels
        raise RunError(
            f"extractor {name}: torch failed: {first_line(error)[:300]}. --hf_device=cpu does without a GPU."
        ) from error
    except Exception as error:  # whatever files of somebody else make transformers raise
        if isinstance(error, ImportError) and "sentencepiece" in str(error).lower():
            raise missing_extra(f"extractor {name}", "sentencepiece", "hf") from error
        hint = " If you trust its code, add --trust_code." if "trust_remote_code" in str(error) else ""
        raise UsageError(f"extractor {name}: {first_line(error)[:300]}{hint}") from error


class TextClassifier(NamedTuple):
    """A linear classifier. The logits of features x [N, D] of unit length are x @ weights + biases.

    Attributes:
      weights: float32 [D, C], the unit vectors of the classes times the network's scale.
      biases: float32 [C], the network's bias; -EVEN_COSINE * scale if it has none.
      has_bias: whether the network has a bias, so that the sigmoid of a logit is the network's own probability.
    """

    weights: NDArray[np.float32]
    biases: NDArray[np.float32]
    has_bias: bool


def text_classifier(extractor: HuggingFaceNetwork, folder: str, prompts: Sequence[Sequence[str]]) -> TextClassifier:
    """Makes a zero-shot classifier, of the classes that these texts describe.

    The logit of a picture and a text is scale * cos(picture, text) + bias (Zhai et al. 2023, Sigmoid Loss for Language
    Image Pre-Training). CLIP (Radford et al. 2021) has no bias, because it compares the texts of a picture with each
    other. For such a network, the bias is -EVEN_COSINE * scale. If a class has several texts, the mean of their unit
    vectors, scaled to length 1, stands for the class.
    """
    name = f"hf:{extractor.hf_model}"
    transformers = hub_networks.import_transformers(name)
    import torch

    with explain_errors(name), torch.inference_mode():
        network, _ = load_network(transformers, folder, torch.float32, extractor.trust_code)
        if not all(hasattr(network, part) for part in ("get_image_features", "get_text_features", "logit_scale")):
            raise UsageError(
                f"{type(network).__name__} does not compare pictures with texts. Use a network such as SigLIP or CLIP."
            )
        # Raises an error now if the extractor could not compute features of videos later.
        form = extractor.processor(transformers, network, folder).form
        refuse_settings_of_other_forms([extractor], [form])
        tokenizer = _tokenizer(transformers, folder, trust_code=extractor.trust_code)
        texts = [text for prompts_of_class in prompts for text in prompts_of_class]
        batches = [texts[start : start + _TEXTS_AT_ONCE] for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        vectors = torch.cat([_text_vectors(network.eval(), tokenizer, batch) for batch in batches]).numpy()
        scale, bias = network.logit_scale.exp().item(), getattr(network, "logit_bias", None)
    ends = np.cumsum([len(prompts_of_class) for prompts_of_class in prompts])[:-1]
    means = np.stack([part.mean(axis=0) for part in np.split(vectors, ends)])
    weights = scale * means / np.linalg.norm(means, axis=1, keepdims=True)
    biases = np.full(len(prompts), -EVEN_COSINE * scale if bias is None else bias.item(), np.float32)
    return TextClassifier(weights.T.astype(np.float32), biases, bias is not None)


def _tokenizer(transformers: Any, folder: str, *, trust_code: bool) -> Any:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_code
        )
        tokenizer("a word")  # raises if special tokens are missing
        return tokenizer
    except Exception as error:  # the library tokenizers raises plain Exceptions
        if isinstance(error, ImportError) or "trust_remote_code" in str(error):
            raise
        raise UsageError(
            f"{folder} has no tokenizer that can be read: expected tokenizer_config.json, and tokenizer.json or a file "
            f"of its own kind, as the network's repository has them ({first_line(error)[:200]})."
        ) from error


def _text_vectors(network: Any, tokenizer: Any, texts: Sequence[str]) -> Any:
    """The unit vectors [N, D] that the network computes for texts.

    SigLIP and SigLIP 2 were trained on texts in lower case, padded to the full length, without an attention mask
    (google-research/big_vision, configs of siglip). This function converts the texts to lower case, because not all
    tokenizers of these networks do so.
    """
    is_siglip = "siglip" in network.config.model_type
    texts, padding = ([text.lower() for text in texts], "max_length") if is_siglip else (list(texts), True)
    longest = network.config.text_config.max_position_embeddings
    tokens = tokenizer(texts, padding=padding, truncation=True, max_length=longest, return_tensors="pt")
    tokens.pop("token_type_ids", None)
    if is_siglip:
        tokens.pop("attention_mask", None)
    vectors = network.get_text_features(**tokens).pooler_output
    return vectors / vectors.norm(dim=-1, keepdim=True)
