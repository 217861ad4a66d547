"""Compares the CPU backend with PyTorch's conv_transpose on the same data and the same number of threads.

    pip install torch numpy
    python benches/torch_cpu.py --threads 1 2

Builds the example `cpu_bench`, lets it and PyTorch compute each problem alternately, checks that the results agree and prints a
Markdown table of medians.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

# name: batch, in_channels, out_channels, groups, input, kernel, stride, padding, output_padding
PROBLEMS = {
    "KernelBench 72 (3D, groups 4)": (8, 32, 32, 4, [12, 24, 48], [3, 5, 7], [2, 2, 2], [1, 2, 3], [1, 1, 1]),
    "RGB 12 megapixel 2x, depthwise": (1, 3, 3, 3, [3000, 4000], [4, 4], [2, 2], [1, 1], [0, 0]),
    "U-Net decoder step": (4, 128, 64, 1, [64, 64], [2, 2], [2, 2], [0, 0], [0, 0]),
    "DCGAN layer": (16, 256, 128, 1, [16, 16], [4, 4], [2, 2], [1, 1], [0, 0]),
    "vocoder 1D 8x, batch 1": (1, 512, 256, 1, [1000], [16], [8], [4], [0]),
    "vocoder 1D 8x, batch 4": (4, 512, 256, 1, [1000], [16], [8], [4], [0]),
}


def build():
    subprocess.run(["cargo", "build", "--release", "--example", "cpu_bench"], check=True)
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return pathlib.Path(metadata["target_directory"]) / "release" / "examples" / "cpu_bench"


def random_data(problem):
    batch, in_channels, out_channels, groups, extents, kernel, *_ = problem
    torch.manual_seed(0)
    scale = 1 / math.sqrt(in_channels / groups * math.prod(kernel))
    return {
        "input": torch.randn(batch, in_channels, *extents),
        "weight": torch.randn(in_channels, out_channels // groups, *kernel) * scale,
        "bias": torch.randn(out_channels),
    }


def run_ours(example, problem, directory, threads, repeats):
    batch, in_channels, out_channels, groups, *extents = problem
    names = ["input", "kernel", "stride", "padding", "output_padding"]
    arguments = [f"dir={directory}", f"threads={threads}", f"repeats={repeats}", f"batch={batch}"]
    arguments += [f"in={in_channels}", f"out={out_channels}", f"groups={groups}"]
    arguments += [f"{name}={','.join(map(str, value))}" for name, value in zip(names, extents)]
    return json.loads(subprocess.run([example, *arguments], check=True, capture_output=True).stdout)


def run_torch(problem, data, threads, repeats):
    _, _, _, groups, extents, _, stride, padding, output_padding = problem
    torch.set_num_threads(threads)
    function = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][len(extents) - 1]
    seconds = []
    with torch.inference_mode():
        for _ in range(repeats):
            start = time.perf_counter()
            output = function(data["input"], data["weight"], data["bias"], stride, padding, output_padding, groups)
            seconds.append(time.perf_counter() - start)
            if len(seconds) > 1 and sum(seconds) > 4:
                break
    return seconds, output


def check(directory, expected):
    """The two may differ by their rounding only."""
    actual = torch.from_numpy(np.fromfile(os.path.join(directory, "output.f32"), dtype=np.float32)).view(expected.shape)
    difference = (actual - expected).abs().max().item()
    limit = 1e-5 * expected.abs().max().item()
    assert difference <= limit, f"results differ by {difference}, more than {limit}"


def compare(example, problem, threads, rounds):
    """Medians of ours and of PyTorch, in seconds. The first run of each round warms up."""
    data = random_data(problem)
    ours, torchs = [], []
    with tempfile.TemporaryDirectory() as directory:
        for name, tensor in data.items():
            tensor.numpy().tofile(os.path.join(directory, f"{name}.f32"))
        for _ in range(rounds):
            ours += run_ours(example, problem, directory, threads, 6)[1:]
            seconds, output = run_torch(problem, data, threads, 6)
            torchs += seconds[1:]
        check(directory, output)
    return statistics.median(ours), statistics.median(torchs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=3, help="how often the two take turns")
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--example", type=pathlib.Path, help="a `cpu_bench` that is built already")
    arguments = parser.parse_args()
    example = arguments.example or build()
    print(f"PyTorch {torch.__version__}\n")
    print("| problem | threads | ours ms | GFLOP/s | PyTorch ms | PyTorch / ours |")
    print("| --- | --- | --- | --- | --- | --- |")
    for threads in arguments.threads:
        for name, problem in PROBLEMS.items():
            if arguments.only not in name:
                continue
            ours, torchs = compare(example, problem, threads, arguments.rounds)
            batch, in_channels, out_channels, groups, extents, kernel, *_ = problem
            flops = 2 * batch * in_channels * out_channels / groups * math.prod(extents) * math.prod(kernel)
            row = f"| {name} | {threads} | {ours * 1e3:.1f} | {flops / ours / 1e9:.1f} |"
            print(f"{row} {torchs * 1e3:.1f} | {torchs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
