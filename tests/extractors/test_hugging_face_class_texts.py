"""Texts of the first SigLIP, whose tokenizer is a model of sentencepiece."""

from __future__ import annotations

import pathlib
import random

import numpy as np
import pytest
import tiny_networks

from yt8m import extractors
from yt8m.extractors.hugging_face import HuggingFaceNetwork, text_classifier

pytestmark = pytest.mark.heavy  # torch and sentencepiece, which `make test-all` installs
TEXTS = ["a video of a red disc", "Moving stripes"]


PIECES = 30


@pytest.fixture(scope="module")
def siglip(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny SigLIP whose tokenizer has the form of google/siglip-base-patch16-224."""
    sentencepiece = pytest.importorskip("sentencepiece")
    import transformers

    transformers.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("text") / "siglip"
    tiny_networks.write(folder, "SigLIP")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    draw = random.Random(0)
    lines = (" ".join(draw.choices(tiny_networks.WORDS, k=8)) for _ in range(200))
    special = {"unk_id": 2, "eos_id": 1, "pad_id": 0, "bos_id": -1, "eos_piece": "</s>", "pad_piece": "<pad>"}
    prefix = str(folder.with_name("pieces"))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_prefix=prefix, vocab_size=PIECES, minloglevel=2, **special
    )
    transformers.SiglipTokenizer(f"{prefix}.model", model_max_length=12).save_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    config.text_config.vocab_size = PIECES
    transformers.SiglipModel(config).save_pretrained(folder)
    return str(folder)


def test_texts_are_split_by_the_pieces_of_the_network(siglip: str) -> None:
    import sentencepiece
    import torch
    import transformers

    assert not pathlib.Path(siglip, "tokenizer.json").exists()
    extractor = extractors.create(f"hf:{siglip}")
    assert isinstance(extractor, HuggingFaceNetwork)
    found = text_classifier(extractor, siglip, [[text] for text in TEXTS])
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{siglip}/spiece.model")
    rows = [[*pieces.encode(text.lower()), 1] for text in TEXTS]
    assert all(2 not in row for row in rows)  # each text has pieces, and none is unknown
    tokens = torch.tensor([row + [1] * (12 - len(row)) for row in rows])
    model = transformers.AutoModel.from_pretrained(siglip).eval()
    with torch.no_grad():
        vectors = model.get_text_features(input_ids=tokens).pooler_output.numpy()
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * model.logit_scale.exp().item()
    np.testing.assert_allclose(found.weights.T, expected, atol=1e-5)
    assert np.abs(np.diff(expected, axis=0)).max() > 1e-3
