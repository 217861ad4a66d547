"""Times PyTorch (cuDNN) on the problems that the example `kernelbench` has measured, and joins both into one table.

    cargo run --release --example kernelbench -- --json ours.json
    python3 benches/torch_gpu.py ours.json

Run both in one sitting on one machine: ratios hold, absolute times drift. Needs PyTorch with CUDA.
"""

import json
import pathlib
import statistics
import sys

import torch

REPEATS = 12
ROTATION_BYTES = 512 << 20


def run(problem):
    """Median milliseconds of PyTorch's layer, on rotating inputs larger than the L2 cache."""
    axes = len(problem["input"])
    layer_type = [torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d][axes - 1]
    layer = layer_type(
        problem["in_channels"],
        problem["out_channels"],
        tuple(problem["kernel"]),
        stride=tuple(problem["stride"]),
        padding=tuple(problem["padding"]),
        output_padding=tuple(problem["output_padding"]),
        dilation=tuple(problem["dilation"]),
        groups=problem["groups"],
        bias=False,
    ).cuda()
    shape = (problem["batch"], problem["in_channels"], *problem["input"])
    first = torch.rand(shape, device="cuda") * 2 - 1
    inputs = [first] + [first.clone() for _ in range(ROTATION_BYTES // (first.numel() * 4))][:15]
    times = []
    with torch.no_grad():
        for index in range(REPEATS + 3):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            output = layer(inputs[index % len(inputs)])
            stop.record()
            stop.synchronize()
            del output
            if index >= 3:
                times.append(start.elapsed_time(stop))
    return statistics.median(times)


def main():
    ours = json.loads(pathlib.Path(sys.argv[1]).read_text())
    data = json.loads((pathlib.Path(__file__).parent / "problems.json").read_text())
    problems = {problem["id"]: problem for problem in data["problems"]}
    torch.backends.cudnn.benchmark = False
    peer = {}
    for number in sorted({row["id"] for row in ours}):
        for name, tf32 in [("f32", False), ("tf32", True)]:
            torch.backends.cudnn.allow_tf32 = tf32
            peer[number, name] = run(problems[number])
            torch.cuda.empty_cache()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}\n")
    print("| problem | algorithm | ms | PyTorch f32 ms | PyTorch TF32 ms | PyTorch f32 / ours | error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in ours:
        f32, tf32 = peer[row["id"], "f32"], peer[row["id"], "tf32"]
        print(
            f"| {row['id']} | {row['algorithm']} | {row['ms']:.3f} | {f32:.3f} | {tf32:.3f} "
            f"| {f32 / row['ms']:.2f} | {row['error']:.1e} |"
        )


if __name__ == "__main__":
    main()
