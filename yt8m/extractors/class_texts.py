"""A classifier out of texts: the vectors that a network of pictures and text, such as SigLIP or CLIP, has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError, first_line
from yt8m.extractors import hub_files
from yt8m.extractors.base import refuse_settings_of_other_forms
from yt8m.extractors.hugging_face import HuggingFaceNetwork, about_network, load_network

_AT_ONCE = 256  # texts

# The cosine at which the score of a network without a bias is 0.5. With CLIP, the cosines of pictures and their texts
# lie between 0 and 0.4 (Hessel et al. 2021, CLIPScore), and its scale is 100: without this, the sigmoid of most logits
# would be 1.0 in float32, and classes could no longer be ranked.
EVEN_COSINE = 0.25


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
    transformers = hub_files.import_transformers(name)
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
        batches = [texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE)]
        vectors = torch.cat([_vectors(network.eval(), tokenizer, batch) for batch in batches]).numpy()
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


def _vectors(network: Any, tokenizer: Any, texts: Sequence[str]) -> Any:
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
