"""Writes opinfo.json and opinfo.safetensors: PyTorch's own samples of conv_transpose1d, 2d and 3d, with what PyTorch computes.

    pip install torch==2.15.0 numpy safetensors expecttest
    python tests/data/conformance/export_opinfo.py

"samples" are the operator database's sample inputs in float32, with the arguments as they are given there: an axis list, one number
for all axes, or nothing. PyTorch computes the outputs in float64. Of an output of more than MOST elements every 37th is kept; 37 shares
no divisor with any extent, so that each axis has all of its positions among them.

"refusals" are its error inputs. The database has none for transposed convolution, so they are those of plain convolution, given to
transposed convolution, which refuses them all; those that it refuses for their geometry are here, with its message. padding="same", which only plain
convolution knows, is left out.
"""

import itertools
import math

import torch
from torch.testing._internal.common_methods_invocations import op_db

import tables

FACTS = {
    "source": f"PyTorch {torch.__version__.split('+')[0]}, torch.testing._internal.common_methods_invocations.op_db",
    "license": "BSD-3-Clause",
}
MOST = 4096
EVERY = 37


def operator(name):
    """The entry of the database."""
    (found,) = [op for op in op_db if op.name == f"nn.functional.{name}"]
    return found


def samples(axes, tensors):
    """The rows of an operator; their tensors are added to the others."""
    op = operator(f"conv_transpose{axes}d")
    torch.manual_seed(axes)
    for index, sample in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=False)):
        name = f"conv_transpose{axes}d.{index}"
        given = [sample.input, *sample.args]
        wide = [None if tensor is None else tensor.double() for tensor in given]
        output = op.op(*wide, **sample.kwargs)
        every = EVERY if output.numel() > MOST else 1
        assert math.gcd(every, output.numel()) == 1, name
        for part, tensor in zip(("input", "weight", "bias"), given, strict=True):
            if tensor is not None:
                tensors[f"{name}.{part}"] = tensor.numpy()
        tensors[f"{name}.output"] = output.flatten()[::every].contiguous().numpy()
        yield {"name": name, "arguments": sample.kwargs, "output": list(output.shape), "every": every}


def refusals(axes):
    """The rows of an operator that PyTorch refuses for their geometry."""
    known = set()
    for error in operator(f"conv{axes}d").error_inputs("cpu"):
        sample = error.sample_input
        arguments = {name: value for name, value in sample.kwargs.items() if value != "same"}
        weight, bias = sample.args
        message = refusal(axes, sample.input, weight, bias, arguments)
        shapes = {"input": list(sample.input.shape), "weight": list(weight.shape)}
        what = ", ".join(f"{name}={value}" for name, value in arguments.items()) or f"weight={shapes['weight']}"
        if "type" not in message and what not in known:
            known.add(what)
            yield {"name": f"conv_transpose{axes}d: {what}", **shapes, "arguments": arguments, "message": message}


def refusal(axes, tensor, weight, bias, arguments):
    """What PyTorch says against it."""
    operation = getattr(torch.nn.functional, f"conv_transpose{axes}d")
    try:
        operation(tensor, weight, bias, **arguments)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    raise AssertionError(f"PyTorch takes {arguments} for a weight of {weight.shape}")


def chained(rows):
    """The rows of all operators."""
    return list(itertools.chain.from_iterable(rows))


def main():
    torch.set_num_threads(1)
    tensors = {}
    lists = {
        "samples": chained(samples(axes, tensors) for axes in (1, 2, 3)),
        "refusals": chained(refusals(axes) for axes in (1, 2, 3)),
    }
    tables.write("opinfo", FACTS, lists, tensors)


main()
