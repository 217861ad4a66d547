"""Writes pytorch.csv: what PyTorch computes, or refuses, for random transposed convolutions.

    python tests/data/pytorch.py > tests/data/pytorch.csv

Fields are separated by ";", the numbers of a list by spaces. A batch of "-" is an unbatched input, an output_size of "-" was not
given. "spoiled" names what was made wrong on purpose. The last field holds the output, row by row. Where PyTorch refuses, output is
"refused" and the last field its message.

Input element i is (3 i^2 + 7 i + 2) mod 11 - 5, weight element j is (5 j^2 + 3 j + 1) mod 7 - 3, and bias element c is
(c^2 + 2) mod 5 - 2, with row-major indices, so that every output is a small integer and exact in any floating-point type.
"""

import random

import torch

FIELDS = "batch groups in_channels out_channels input kernel stride padding output_padding dilation output_size".split()
MOST_OUTPUTS = 180


def elements(shape, term):
    count = torch.Size(shape).numel()
    return torch.tensor([term(i) for i in range(count)], dtype=torch.float64).reshape(shape)


def random_case(rng, axes):
    def draw(low, high):
        return [rng.randint(low, high) for _ in range(axes)]

    most = {1: 9, 2: 4, 3: 3}[axes]
    groups = rng.choice([1, 1, 1, 2, 3])
    stride, dilation = draw(1, 5 if axes == 1 else 3), draw(1, 4 if axes == 1 else 3)
    case = {
        "batch": rng.choice([None, 0, 1, 1, 1, 2, 2]),
        "groups": groups,
        "in_channels": groups * rng.randint(1, 3),
        "out_channels": groups * rng.randint(1, 3),
        "input": draw(1, most),
        "kernel": draw(1, 7 if axes == 1 else 3),
        "stride": stride,
        "padding": draw(0, 4 if axes == 1 else 2),
        "dilation": dilation,
        "output_padding": [rng.choice([0, rng.randrange(max(s, d))]) for s, d in zip(stride, dilation)],
        "output_size": None,
    }
    if rng.random() < 0.25:
        case["output_padding"] = [0] * axes
        case["output_size"] = [low + rng.randrange(s) for low, s in zip(smallest(case), stride)]
    return case


def smallest(case):
    """The output extents without output padding."""
    lists = (case[field] for field in ("input", "kernel", "stride", "padding", "dilation"))
    return [(i - 1) * s - 2 * p + d * (k - 1) + 1 for i, k, s, p, d in zip(*lists)]


def spoil(rng, case, how):
    """Makes a case that PyTorch takes one that it should not. Not with an empty batch: then it leaves most checks out."""
    case["batch"] = case["batch"] or rng.choice([None, 1, 2])
    axis = rng.randrange(len(case["input"]))
    if how == "output_padding":
        case["output_size"] = None
        case["output_padding"][axis] = max(case["stride"][axis], case["dilation"][axis]) + rng.choice([0, 0, 1, 5])
    elif how in ("output_size below", "output_size above"):
        case["output_padding"] = [0] * len(case["input"])
        case["output_size"] = smallest(case)
        above = case["stride"][axis] + rng.choice([0, 0, 1, 5])
        below = -rng.randint(1, max(1, smallest(case)[axis]))
        case["output_size"][axis] += above if how.endswith("above") else below
    elif how == "padding":
        case["output_size"] = None
        extent = smallest(case)[axis] + case["output_padding"][axis]
        case["padding"][axis] += (extent + 1) // 2 + rng.choice([0, 0, 1, 5])
    elif how in ("stride", "dilation", "kernel", "input"):
        case["output_size"] = None
        case["output_padding"] = [0] * len(case["input"])
        case[how][axis] = 0
    elif how in ("in_channels", "out_channels"):
        case["groups"] = rng.choice([2, 3])
        case[how] = case["groups"] * rng.randint(1, 3) + 1
        other = "out_channels" if how == "in_channels" else "in_channels"
        case[other] = case["groups"] * 2
    elif how == "groups":
        case["groups"] = 0


def compute(case):
    axes = len(case["input"])
    module = [torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d][axes - 1]
    arguments = ("in_channels", "out_channels", "stride", "padding", "output_padding", "dilation", "groups")
    layer = module(kernel_size=case["kernel"], dtype=torch.float64, **{name: case[name] for name in arguments})
    with torch.no_grad():
        layer.weight.copy_(elements(layer.weight.shape, lambda j: (5 * j * j + 3 * j + 1) % 7 - 3))
        layer.bias.copy_(elements(layer.bias.shape, lambda c: (c * c + 2) % 5 - 2))
        batch = [] if case["batch"] is None else [case["batch"]]
        shape = batch + [case["in_channels"]] + case["input"]
        return layer(elements(shape, lambda i: (3 * i * i + 7 * i + 2) % 11 - 5), output_size=case["output_size"])


def field(value):
    if value is None:
        return "-"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def write(case, spoiled):
    try:
        output = compute(case)
        results = [field(list(output.shape)), field([int(value) for value in output.flatten()])]
    except (RuntimeError, ValueError, IndexError) as error:
        results = ["refused", str(error).splitlines()[0].replace(";", ",")]
    print(";".join([field(case[name]) for name in FIELDS] + [spoiled] + results))


def main():
    rng = random.Random(1)
    print(f"# PyTorch {torch.__version__.split('+')[0]}, by pytorch.py beside this file")
    print(";".join(FIELDS + ["spoiled", "output", "values"]))
    for axes in (1, 2, 3):
        written = 0
        while written < 70:
            case = random_case(rng, axes)
            if min(smallest(case)) < 1:
                continue
            if compute(case).numel() > MOST_OUTPUTS:
                continue
            write(case, "-")
            written += 1
        hows = "output_padding,output_size below,output_size above,padding,stride,dilation,kernel,input,in_channels,out_channels,groups"
        for how in hows.split(","):
            written = 0
            while written < 3:
                case = random_case(rng, axes)
                if min(smallest(case)) < 1:
                    continue
                spoil(rng, case, how)
                written += 1
                write(case, how)


main()
