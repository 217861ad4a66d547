"""Writes onnx.json and onnx.safetensors: the cases that the onnx package holds for backends to test ConvTranspose with.

    pip install onnx==1.23.2 numpy safetensors
    python tests/data/conformance/export_onnx.py

"node" are the node tests, as onnx.backend.test.case.node has them; "converted" are the models that were exported from PyTorch's own
tests, which lie in onnx/backend/test/data with what PyTorch computed for them in single precision. Nothing is computed here: X, W,
B and the expected Y are the package's own.
"""

import pathlib

import onnx
from onnx.backend.test.case.node import collect_testcases

import tables

FACTS = {
    "source": f"onnx {onnx.__version__}, https://github.com/onnx/onnx",
    "copyright": "Copyright (c) ONNX Project Contributors",
    "license": "Apache-2.0",
}


def attribute(value):
    """An attribute as JSON has it."""
    value = onnx.helper.get_attribute_value(value)
    return value.decode() if isinstance(value, bytes) else value


def case(name, model, inputs, output, tensors):
    """Adds the tensors of a model of one node, and returns its row."""
    (node,) = model.graph.node
    assert node.op_type == "ConvTranspose", name
    initial = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    fed = [value.name for value in model.graph.input if value.name not in initial]
    values = initial | dict(zip(fed, inputs, strict=True))
    for letter, edge in zip("XWB", node.input):
        tensors[f"{name}.{letter}"] = values[edge]
    tensors[f"{name}.Y"] = output
    return {"name": name, "attributes": {each.name: attribute(each) for each in node.attribute}}


def node_tests(tensors):
    """The node tests: each of one data set."""
    for test in collect_testcases("ConvTranspose"):
        ((inputs, (output,)),) = test.data_sets
        yield case(test.name, test.model, inputs, output, tensors)


def tensor(path):
    """The tensor in a file of the package."""
    return onnx.numpy_helper.to_array(onnx.load_tensor(path))


def converted_models(tensors):
    """The models of one ConvTranspose that were exported from PyTorch."""
    data = pathlib.Path(onnx.__file__).parent / "backend/test/data"
    for folder in sorted(data.glob("pytorch-*/*[cC]onv[tT]ranspose*")):
        (files,) = folder.glob("test_data_set_*")
        inputs, output = [tensor(path) for path in sorted(files.glob("input_*.pb"))], tensor(files / "output_0.pb")
        yield case(folder.name, onnx.load(folder / "model.onnx"), inputs, output, tensors)


def main():
    tensors = {}
    lists = {"node": list(node_tests(tensors)), "converted": list(converted_models(tensors))}
    tables.write("onnx", FACTS, lists, tensors)


main()
