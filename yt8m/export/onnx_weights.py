"""Stores the weights of an ONNX model in bytes, by the rule of `small_weights`."""

from __future__ import annotations

from typing import Any

import numpy as np

from yt8m.export.onnx_conversion import graphs_of
from yt8m.export.small_weights import pack


def store_as_bytes(model: Any) -> None:
    """Replaces each weight matrix of the ONNX model by one byte a weight and nodes that compute the floats.

    onnxruntime runs these nodes once, when it loads the file: afterwards the model is as fast as with floats. The
    integer products of `quantize_dynamic` also round the other operand of each product, which costs accuracy.
    """
    for graph in graphs_of(model):
        _constants_to_initializers(graph)
        initializers, nodes = list[Any](), list[Any]()
        for weights in graph.initializer:
            of_weights, computing = _packed(weights)
            initializers += of_weights
            nodes += computing
        nodes += graph.node
        del graph.initializer[:], graph.node[:]
        graph.initializer.extend(initializers)
        graph.node.extend(nodes)


def _constants_to_initializers(graph: Any) -> None:
    for node in [node for node in graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]:
        node.attribute[0].t.name = node.output[0]
        graph.initializer.append(node.attribute[0].t)
        graph.node.remove(node)


def _packed(weights: Any) -> tuple[list[Any], list[Any]]:
    """The initializers and nodes in place of one initializer; itself if bytes are not fewer."""
    from onnx import helper, numpy_helper

    value = numpy_helper.to_array(weights)
    packed = pack(value, "int8")
    stored = [array for array in packed if array is not None]
    if packed.step is None or sum(array.nbytes for array in stored) >= value.nbytes:
        return [weights], []
    codes, minimum, step, floats, product = (
        f"{weights.name}/{name}" for name in ("codes", "minimum", "step", "floats", "product")
    )
    initializers = [
        numpy_helper.from_array(np.asarray(array), name)
        for array, name in zip(stored, (codes, minimum, step), strict=True)
    ]
    return initializers, [
        helper.make_node("Cast", [codes], [floats], to=weights.data_type),
        helper.make_node("Mul", [floats, step], [product]),
        helper.make_node("Add", [product, minimum], [weights.name]),
    ]
