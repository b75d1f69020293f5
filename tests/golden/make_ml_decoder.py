"""Makes ml_decoder.npz: `python make_ml_decoder.py CHECKOUT`, in this folder, with PyTorch.

CHECKOUT is one of github.com/Alibaba-MIIL/ML_Decoder (8a9e984). Its code computes all values, in float64, without
dropout. Two things are changed to run it: the feed-forward part has 12 units in place of 2048, and its only layer is
called directly, because later versions of PyTorch pass it arguments that it does not know.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import Any

import numpy as np
import torch

SEED, ROWS, FRAMES, FEATURES, SIZE, QUERIES, CLASSES = 43, 6, 5, 12, 16, 4, 11


def module(path: pathlib.Path) -> Any:
    """A file of a checkout, imported."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def main(checkout: pathlib.Path) -> None:
    """Writes the file."""
    published = module(checkout / "src_files/ml_decoder/ml_decoder.py")
    layer = published.TransformerDecoderLayerOptimal
    make = layer.__init__
    layer.__init__ = lambda self, d_model, **sizes: make(self, d_model, **(sizes | {"dim_feedforward": 12}))
    torch.nn.TransformerDecoder.forward = lambda self, tgt, memory: self.layers[0](tgt, memory)
    decoder = published.MLDecoder(CLASSES, QUERIES, SIZE, FEATURES).double().eval()
    draw = np.random.default_rng(SEED)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter += torch.tensor(draw.normal(0, 0.3, parameter.shape))
    frames = draw.normal(size=(ROWS, FRAMES, FEATURES))
    logits = decoder(torch.tensor(frames))
    (torch.sin(logits) * torch.cos(torch.arange(CLASSES))).sum().backward()
    arrays = {"frames": frames, "logits": logits.detach().numpy()}
    for name, parameter in decoder.named_parameters():
        arrays[f"parameter/{name}"] = parameter.detach().numpy()
        if parameter.grad is not None:
            arrays[f"gradient/{name}"] = parameter.grad.numpy()
    np.savez_compressed("ml_decoder.npz", **arrays)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
