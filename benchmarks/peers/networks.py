"""The six networks in PyTorch. Their weights are variables of this project, so all but `Gru` compute the same.

Every network maps a batch (see `Batch`) to probabilities [B, C] or logits [B, C]; `loss` takes either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from yt8m.records import vocabulary

_BYTE_STEP = 4.0 / 255.0
_BYTE_OFFSET = 4.0 / 512.0 - 2.0
_BATCH_NORM_EPSILON = 1e-3
_BATCH_NORM_MOMENTUM = 1e-3  # 1 - the decay of this project

_SUM = 2  # the number of the reduction "sum" in PyTorch's operations

Weights = Mapping[str, np.ndarray]


class Batch(NamedTuple):
    """A batch of B videos.

    Attributes:
      features: float32 [B, D], or a uint8 [B, T, size] for each feature.
      num_frames: int64 [B].
      labels: bool or float32 [B, C].
    """

    features: tuple[Tensor, ...]
    num_frames: Tensor
    labels: Tensor


class Dense(nn.Module):
    """inputs [..., F] -> [..., units], with the variables `weights` and `biases` of a scope."""

    def __init__(self, weights: Weights, scope: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weights[f"{scope}/weights"].T.copy()))
        biases = weights.get(f"{scope}/biases")
        self.bias = None if biases is None else nn.Parameter(torch.tensor(biases))

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self.weight, self.bias)


class Product(nn.Module):
    """inputs [..., F] times one variable [F, units]."""

    def __init__(self, weights: Weights, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weights[name].T.copy()))

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self.weight)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation of rows [N, F]."""

    def __init__(self, weights: Weights, scope: str) -> None:
        gamma = torch.tensor(weights[f"{scope}/gamma"])
        super().__init__(len(gamma), _BATCH_NORM_EPSILON, _BATCH_NORM_MOMENTUM)
        self.weight, self.bias = nn.Parameter(gamma), nn.Parameter(torch.tensor(weights[f"{scope}/beta"]))


class Logistic(nn.Module):
    """p = sigmoid(W x + b); gives logits."""

    gives_logits = True

    def __init__(self, weights: Weights, scope: str = "tower", penalty: float = 1e-8) -> None:
        super().__init__()
        self.layer = Dense(weights, f"{scope}/fully_connected")
        self.penalties = {self.layer.weight: penalty}

    def forward(self, batch: Batch) -> Tensor:
        return self.classify(functional.normalize(batch.features[0]))

    def classify(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)


class Moe(nn.Module):
    """A mixture of two experts and a dummy for each class; gives probabilities."""

    gives_logits = False

    def __init__(self, weights: Weights, scope: str = "tower", penalty: float = 1e-8) -> None:
        super().__init__()
        self.gates, self.experts = Dense(weights, f"{scope}/gates"), Dense(weights, f"{scope}/experts")
        self.penalties = {self.gates.weight: penalty, self.experts.weight: penalty}

    def forward(self, batch: Batch) -> Tensor:
        return self.classify(functional.normalize(batch.features[0]))

    def classify(self, inputs: Tensor) -> Tensor:
        votes = self.experts(inputs).float().unflatten(-1, (-1, 2))
        gates = self.gates(inputs).float().unflatten(-1, (-1, 3)).softmax(-1)
        return (gates[..., :2] * votes.sigmoid()).sum(-1)


class Dbof(nn.Module):
    """Deep bag of 30 random frames, then a mixture."""

    gives_logits = False

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.input_norm, self.cluster_norm, self.hidden_norm = (
            BatchNorm(weights, f"tower/{name}_bn") for name in ("input", "cluster", "hidden1")
        )
        self.cluster, self.hidden = (Product(weights, f"tower/{name}_weights") for name in ("cluster", "hidden1"))
        self.mixture = Moe(weights)
        self.penalties = self.mixture.penalties

    def forward(self, batch: Batch) -> Tensor:
        numbers = (torch.rand(len(batch.num_frames), 30) * batch.num_frames[:, None]).long()
        rows = torch.arange(len(numbers))[:, None]
        frames = torch.cat([feature[rows, numbers] for feature in batch.features], -1)
        scores = self.cluster(self.input_norm(functional.normalize(dequantised(frames), dim=-1).flatten(0, 1)))
        # In float32: the compiled gradient of a bfloat16 maximum looks for it among unrounded scores, and is NaN.
        pooled = self.cluster_norm(scores).float().unflatten(0, (-1, 30)).amax(1).sigmoid()
        return self.mixture.classify(self.hidden_norm(self.hidden(pooled)).sigmoid())


class NeXtVlad(nn.Module):
    """NeXtVLAD on each feature by itself, a gated hidden layer, logistic regression."""

    gives_logits = True

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.streams = nn.ModuleList([_Stream(weights, f"tower/stream_{index}") for index in range(2)])
        self.hidden = Dense(weights, "tower/hidden1")
        self.hidden_norm = BatchNorm(weights, "tower/hidden1_bn")
        self.squeeze, self.excite = (Dense(weights, f"tower/se_gating/{name}") for name in ("squeeze", "excite"))
        self.gate_norm = BatchNorm(weights, "tower/se_gating/bn")
        self.classifier = Logistic(weights, penalty=1e-5)
        self.penalties = {**self.classifier.penalties, self.hidden.weight: 1e-5}
        scale = np.sqrt(vocabulary.pca_eigenvalues()[:1024]) + 1e-4
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, batch: Batch) -> Tensor:
        rgb, audio = batch.features
        mask = (torch.arange(rgb.shape[1]) < batch.num_frames[:, None]).float()
        # Without half a step of quantisation, as the published code reverses the whitening.
        picture = (rgb.float() * _BYTE_STEP - 2.0) * self.scale * mask[..., None]
        sound = dequantised(audio) * mask[..., None]
        described = torch.cat([s(x, mask) for s, x in zip(self.streams, (picture, sound), strict=True)], -1)
        hidden = self.hidden_norm(self.hidden(described))
        gate = self.excite(self.gate_norm(self.squeeze(hidden)).relu()).sigmoid()
        return self.classifier.classify(hidden * gate)


class _Stream(nn.Module):
    """The descriptor [B, K * width] of one feature."""

    def __init__(self, weights: Weights, scope: str) -> None:
        super().__init__()
        self.expansion, self.attention = (
            Dense(weights, f"{scope}/{name}") for name in ("expansion", "group_attention")
        )
        self.cluster, self.cluster_norm = (
            Product(weights, f"{scope}/cluster_weights"),
            BatchNorm(weights, f"{scope}/cluster_bn"),
        )
        self.centres = nn.Parameter(torch.tensor(weights[f"{scope}/centres"]))
        self.norm = BatchNorm(weights, f"{scope}/vlad_bn")

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        expanded = self.expansion(inputs)
        attention = self.attention(expanded).float().sigmoid() * mask[..., None]
        scores = self._normalised(self.cluster(expanded).float(), mask)
        groups = attention.shape[-1]
        shares = scores.unflatten(-1, (groups, -1)).softmax(-1) * attention[..., None]
        shares, pieces = shares.flatten(1, 2), expanded.unflatten(-1, (groups, -1)).flatten(1, 2)
        # The centres are stored as the variable is, [K, D].
        sums = shares.to(pieces.dtype).transpose(1, 2) @ pieces
        described = sums - shares.sum(1)[..., None] * self.centres
        return self.norm(functional.normalize(described.float(), dim=-1, eps=1e-6).flatten(1))

    def _normalised(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Batch normalisation by the statistics of the real frames."""
        norm, count = self.cluster_norm, mask.sum()
        shares = mask[..., None] / count
        mean = (scores * shares).sum((0, 1))
        variance = ((scores - mean).square() * shares).sum((0, 1))
        with torch.no_grad():
            norm.running_mean.lerp_(mean, _BATCH_NORM_MOMENTUM)
            norm.running_var.lerp_(variance, _BATCH_NORM_MOMENTUM)
        return (scores - mean) * (norm.weight * torch.rsqrt(variance + _BATCH_NORM_EPSILON)) + norm.bias


class Recurrent(nn.Module):
    """Recurrent layers; a mixture on the output of the last one at the last real frame."""

    gives_logits = False

    def __init__(self, layers: nn.LSTM | nn.GRU, weights: Weights) -> None:
        super().__init__()
        self.layers, self.mixture = layers, Moe(weights)
        self.penalties = self.mixture.penalties

    def fill(self, layer: int, matrix: np.ndarray, biases: np.ndarray) -> None:
        """Gives a layer its weights [gates, inputs + cells] and biases [gates]; its second biases stay zero."""
        own, cells = self.layers, self.layers.hidden_size
        with torch.no_grad():
            getattr(own, f"weight_ih_l{layer}").copy_(torch.tensor(matrix[:, :-cells]))
            getattr(own, f"weight_hh_l{layer}").copy_(torch.tensor(matrix[:, -cells:]))
            getattr(own, f"bias_ih_l{layer}").copy_(torch.tensor(biases))
            getattr(own, f"bias_hh_l{layer}").zero_().requires_grad_(False)

    def last_output(self, batch: Batch) -> Tensor:
        """The output [B, cells] of the last layer at the last real frame of each video."""
        frames = torch.cat([dequantised(feature) for feature in batch.features], -1)
        mask = torch.arange(frames.shape[1]) < batch.num_frames[:, None]
        outputs, _ = self.layers(functional.normalize(frames, dim=-1) * mask[..., None])
        last: Tensor = outputs[torch.arange(len(outputs)), batch.num_frames - 1]
        return last

    def forward(self, batch: Batch) -> Tensor:
        return self.mixture.classify(self.last_output(batch))


class Lstm(Recurrent):
    """Two layers of 1024 cells."""

    def __init__(self, weights: Weights) -> None:
        names = [f"tower/rnn/multi_rnn_cell/cell_{layer}/basic_lstm_cell" for layer in range(2)]
        cells = weights[f"{names[0]}/bias"].shape[0] // 4
        inputs = weights[f"{names[0]}/kernel"].shape[0] - cells
        super().__init__(nn.LSTM(inputs, cells, 2, batch_first=True), weights)
        # Gates i, g, f, o of the variables become i, f, g, o; 1 is added to the forget gate's bias.
        order = np.concatenate([np.arange(cells) + gate * cells for gate in (0, 2, 1, 3)])
        for layer, name in enumerate(names):
            biases = weights[f"{name}/bias"][order]
            biases[cells : 2 * cells] += 1.0
            self.fill(layer, weights[f"{name}/kernel"].T[order].copy(), biases)
        # Both matrices of a layer are one variable of this project, whose gradient is clipped as a whole.
        self.joined = [[getattr(self.layers, f"weight_{part}_l{layer}") for part in ("ih", "hh")] for layer in range(2)]


class Gru(Recurrent):
    """Two layers of 1200 cells.

    The reset gate r follows the product with the recurrent weights U: r * (U h), as in every GRU of PyTorch. This
    project computes U (r * h). So both have the same weights and as much to multiply, PyTorch in one product for a step
    and this project in two, but not quite the same outputs.
    """

    def __init__(self, weights: Weights) -> None:
        names = [f"tower/rnn/multi_rnn_cell/cell_{layer}/gru_cell" for layer in range(2)]
        cells = len(weights[f"{names[0]}/candidate/bias"])
        inputs = weights[f"{names[0]}/candidate/kernel"].shape[0] - cells
        super().__init__(nn.GRU(inputs, cells, 2, batch_first=True), weights)
        for layer, name in enumerate(names):
            matrix, biases = (
                np.concatenate([weights[f"{name}/{part}/{kind}"] for part in ("gates", "candidate")], -1)
                for kind in ("kernel", "bias")
            )
            self.fill(layer, matrix.T.copy(), biases)


def dequantised(codes: Tensor) -> Tensor:
    """float32 from bytes, in -2..2."""
    return codes.float() * _BYTE_STEP + _BYTE_OFFSET


def probabilities(network: nn.Module, outputs: Tensor) -> Tensor:
    """The probabilities [B, C] of outputs [B, C]."""
    return outputs.sigmoid() if network.gives_logits else outputs


def loss(network: nn.Module, outputs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, summed over classes, mean over videos; without the penalties, which `Update` adds as gradients."""
    compute = functional.binary_cross_entropy_with_logits if network.gives_logits else functional.binary_cross_entropy
    return compute(outputs.float(), labels.float(), reduction="sum") / len(labels)


def slopes(network: nn.Module, outputs: Tensor, labels: Tensor) -> Tensor:
    """The gradient of `loss` with respect to the outputs, float32 [B, C], without computing the loss."""
    if network.gives_logits:
        return outputs.sigmoid().sub_(labels.float()).div_(len(labels))
    share = torch.full((), 1.0 / len(labels))
    return torch.ops.aten.binary_cross_entropy_backward(share, outputs, labels.float(), None, _SUM)


NETWORKS = {
    "LogisticModel": Logistic,
    "MoeModel": Moe,
    "DbofModel": Dbof,
    "NeXtVladModel": NeXtVlad,
    "LstmModel": Lstm,
    "GruModel": Gru,
}
