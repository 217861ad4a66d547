"""Puts the times of PyTorch (cuDNN), and of JAX and burn if they are there, beside those that the example `kernelbench` has measured.

    cargo run --release --example kernelbench -- --json ours.json
    python3 benches/torch_gpu.py ours.json --json joined.json

burn's times come from a program of their own, which takes a while to build; without `--burn` its columns stay empty:

    cargo run --release --manifest-path benches/burn/Cargo.toml -- ours.json --json burn.json
    python3 benches/torch_gpu.py ours.json --burn burn.json --json joined.json

Run all in one sitting on one machine: ratios hold, absolute times drift. Needs PyTorch with CUDA.

The floor is computed anew from rates that are measured here: a copy of a gigabyte, and cuBLAS's TF32 product of 8192 x 8192 matrices
(a third of its rate for f32, which takes three products for one). PyTorch's rows for f32 have TF32 off, those for TF32 have it on;
`cudnn.benchmark` stays off, as it is by default. burn chooses by itself, whatever the row's precision is; the first lines of
benches/burn/src/main.rs say between what. PyTorch is timed as we are, with events on a stream that is kept busy; JAX, which has no
events, and burn by the clock over all calls, so their small problems include the time of the host.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import statistics
import sys
import time

import torch

# Before JAX is imported: it would take most of the memory for itself.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
try:
    import jax
except ImportError:
    jax = None

WARM_UP = 3
# A call that takes longer is not repeated.
LONG_MS = 2000
ROTATION_BYTES = 512 << 20
MAX_SETS = 4096
GIGABYTE = 1 << 30
# What the fields of a joined row begin with, and what the tables say.
PEERS = {"torch": "PyTorch", "jax": "JAX", "burn": "burn"}


class Stopwatch:
    """Times calls on PyTorch's stream."""

    def __init__(self, repeats):
        self.repeats = repeats
        self.source = torch.zeros(GIGABYTE, dtype=torch.uint8, device="cuda")
        self.target = torch.empty_like(self.source)

    def copy(self, _=None):
        self.target.copy_(self.source)

    def median_ms(self, call):
        """Median milliseconds of call(0), call(1), ... after warm-up, with inputs that are not in the L2 cache."""
        for index in range(WARM_UP):
            single = self.times(call, [index])[0]
            if index > 0 and single > LONG_MS:
                return single
        # The host enqueues the calls while the GPU copies.
        for _ in range(4):
            self.copy()
        return statistics.median(self.times(call, range(WARM_UP, WARM_UP + self.repeats)))

    @staticmethod
    def times(call, indices):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(indices) + 1)]
        events[0].record()
        for index, event in zip(indices, events[1:]):
            call(index)
            event.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(stop) for start, stop in zip(events, events[1:])]


def measure_rates(stopwatch):
    """GB/s of a copy, and TFLOP/s of cuBLAS's TF32 products."""
    gb_per_s = 2 * GIGABYTE / stopwatch.median_ms(stopwatch.copy) / 1e6
    size = 8192
    a, b = torch.rand(size, size, device="cuda") - 0.5, torch.rand(size, size, device="cuda") - 0.5
    product = torch.empty_like(a)
    with allowing_tf32(True):
        ms = stopwatch.median_ms(lambda _: torch.matmul(a, b, out=product))
    return {"copy_gb_per_s": gb_per_s, "tf32_tflop_per_s": 2 * size**3 / ms / 1e9}


@contextlib.contextmanager
def allowing_tf32(allowed):
    backends = [torch.backends.cudnn, torch.backends.cuda.matmul]
    before = [backend.allow_tf32 for backend in backends]
    try:
        for backend in backends:
            backend.allow_tf32 = allowed
        yield
    finally:
        for backend, value in zip(backends, before):
            backend.allow_tf32 = value


def input_shape(row):
    return (row["batch"], row["in_channels"], *row["input"])


def weight_shape(row):
    return (row["in_channels"], row["out_channels"] // row["groups"], *row["kernel"])


def output_shape(row):
    axes = zip(*(row[name] for name in ["input", "kernel", "stride", "padding", "output_padding", "dilation"]))
    extents = [(i - 1) * s - 2 * p + d * (k - 1) + op + 1 for i, k, s, p, op, d in axes]
    return (row["batch"], row["out_channels"], *extents)


def input_count(row):
    """Inputs that are together larger than the L2 cache of any GPU."""
    return min(MAX_SETS, math.ceil(ROTATION_BYTES / (4 * math.prod(input_shape(row)))))


def run_torch(row, has_bias, stopwatch):
    function = [torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d][len(row["input"]) - 1]
    inputs = torch.rand((input_count(row), *input_shape(row)), device="cuda") * 2 - 1
    weight = torch.rand(weight_shape(row), device="cuda") * 2 - 1
    bias = torch.rand(row["out_channels"], device="cuda") * 2 - 1 if has_bias else None
    parameters = [row["stride"], row["padding"], row["output_padding"], row["groups"], row["dilation"]]

    def call(index):
        return function(inputs[index % len(inputs)], weight, bias, *parameters)

    with torch.inference_mode(), allowing_tf32(row["precision"] == "tf32"):
        assert call(0).shape == output_shape(row)
        return stopwatch.median_ms(call)


def jax_layer(row):
    """The layer as JAX has it: a convolution of an input with holes. Its weight is flipped and transposed beforehand."""
    axes = list(zip(*(row[name] for name in ["kernel", "padding", "output_padding", "dilation"])))
    exact = row["precision"] == "f32"

    def layer(x, weight, bias):
        output = jax.lax.conv_general_dilated(
            x,
            weight,
            window_strides=[1] * len(axes),
            padding=[(d * (k - 1) - p, d * (k - 1) - p + op) for k, p, op, d in axes],
            lhs_dilation=row["stride"],
            rhs_dilation=row["dilation"],
            feature_group_count=row["groups"],
            precision=jax.lax.Precision.HIGHEST if exact else jax.lax.Precision.DEFAULT,
        )
        return output if bias is None else output + bias

    return jax.jit(layer)


def run_jax(row, has_bias, stopwatch):
    shape = (row["out_channels"], row["in_channels"] // row["groups"], *row["kernel"])
    weight = jax.random.uniform(jax.random.key(1), shape, minval=-1)
    bias_shape = (row["out_channels"], *[1] * len(row["kernel"]))
    bias = jax.random.uniform(jax.random.key(2), bias_shape, minval=-1) if has_bias else None
    # An array of its own for each: a slice would be a copy, and would be timed.
    keys = jax.random.split(jax.random.key(0), min(input_count(row), WARM_UP + stopwatch.repeats))
    inputs = [jax.random.uniform(key, input_shape(row), minval=-1) for key in keys]
    layer = jax_layer(row)

    def seconds(indices):
        start = time.perf_counter()
        for index in indices:
            output = layer(inputs[index % len(inputs)], weight, bias)
        output.block_until_ready()
        return time.perf_counter() - start

    assert layer(inputs[0], weight, bias).shape == output_shape(row)
    single = seconds(range(1)) * 1e3
    if single > LONG_MS:
        return single
    stopwatch.copy()
    torch.cuda.synchronize()
    return seconds(range(1, 1 + stopwatch.repeats)) * 1e3 / stopwatch.repeats


def key(row):
    """Problem and precision: what several algorithms of ours are compared with."""
    return row.get("id"), row.get("name"), row["precision"]


def run_peer(run, rows, has_bias, stopwatch):
    """Milliseconds by `key`. None where the peer refuses a problem or runs out of memory."""
    peer = {}
    for row in {key(row): row for row in rows}.values():
        try:
            peer[key(row)] = run(row, has_bias, stopwatch)
        except Exception as error:  # Each library has its own.
            print(f"{label(row)} {row['precision']}, {run.__name__}: {str(error).splitlines()[:1]}", file=sys.stderr)
            peer[key(row)] = None
        torch.cuda.empty_cache()
    return peer


def read_burn(path):
    """Milliseconds by `key`, and what is to be said of versions."""
    report = json.loads(path.read_text())
    return {key(row): row["ms"] for row in report["rows"]}, report["versions"]


def label(row):
    return " ".join(str(row[part]) for part in ["id", "name"] if part in row)


def join(row, rates, peers):
    """Our row with the floor of this run and the peers' times: for each of `PEERS`, milliseconds by `key`."""
    arithmetic = rates["tf32_tflop_per_s"] / (1 if row["precision"] == "tf32" else 3)
    memory_ms = row["bytes"] / rates["copy_gb_per_s"] / 1e6
    arithmetic_ms = row["flops"] / arithmetic / 1e9
    floor_ms = max(memory_ms, arithmetic_ms)
    times = {peer: peers[peer].get(key(row)) for peer in PEERS}
    times["best"] = min((ms for ms in times.values() if ms), default=None)
    joined = row | {
        "floor_ms": floor_ms,
        "bound": "memory" if memory_ms >= arithmetic_ms else "arithmetic",
        "share": floor_ms / row["ms"],
    }
    for peer, ms in times.items():
        joined |= {f"{peer}_ms": ms, f"{peer}_ratio": ms / row["ms"] if ms else None}
    return joined


def cell(value, form):
    return "-" if value is None else format(value, form)


def markdown_row(cells):
    return f"| {' | '.join(cells)} |"


def table(rows):
    """Markdown lines."""
    peers = [heading for name in PEERS.values() for heading in (f"{name} ms", f"{name} / ours")]
    headings = ["problem", "kernel", "ms", "floor ms", "share", *peers, "error"]
    yield markdown_row(headings)
    yield markdown_row(["---"] * len(headings))
    for row in rows:
        cells = [label(row), row["algorithm"], cell(row["ms"], ".4f"), cell(row["floor_ms"], ".4f")]
        cells.append(cell(row["share"], ".1%"))
        for peer in PEERS:
            cells += [cell(row[f"{peer}_ms"], ".4f"), cell(row[f"{peer}_ratio"], ".2f")]
        yield markdown_row([*cells, cell(row["error"], ".1e")])


def means(rows):
    """Markdown lines: geometric means, over all and by what bounds the problem; and the lowest ratios."""
    names = PEERS | {"best": "the best of them"}
    headings = ["problems", "number", "share of the floor", *(f"{name} / ours" for name in names.values())]
    yield markdown_row(headings)
    yield markdown_row(["---"] * len(headings))
    for bound in ["all", "memory", "arithmetic"]:
        chosen = [row for row in rows if bound in ("all", row["bound"])]
        cells = [bound if bound == "all" else f"bound by {bound}", str(len(chosen))]
        for column, form in [("share", ".1%"), *((f"{peer}_ratio", ".2f") for peer in names)]:
            values = [row[column] for row in chosen if row[column] is not None]
            cells.append(cell(statistics.geometric_mean(values) if values else None, form))
        yield markdown_row(cells)
    for peer in ["torch", "best"]:
        compared = [row for row in rows if row[f"{peer}_ratio"] is not None]
        if compared:
            lowest = min(compared, key=lambda row: row[f"{peer}_ratio"])
            yield f"\nLowest ratio {names[peer]} / ours: {lowest[f'{peer}_ratio']:.2f}, problem {label(lowest)}."


def print_all(rows):
    """A table and its means for each precision, and for each algorithm that was asked for."""
    for precision, asked in dict.fromkeys((row["precision"], row["asked"]) for row in rows):
        chosen = [row for row in rows if (row["precision"], row["asked"]) == (precision, asked)]
        print(f"\n## {precision}, algorithm {asked}\n")
        print("\n".join(table(chosen)), end="\n\n")
        print("\n".join(means(chosen)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path, help="what `kernelbench --json` wrote")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the joined rows")
    parser.add_argument("--burn", type=pathlib.Path, help="what the program in benches/burn wrote")
    parser.add_argument("--without-jax", action="store_true")
    arguments = parser.parse_args()
    report = json.loads(arguments.ours.read_text())
    torch.backends.cudnn.benchmark = False
    versions = [f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"]
    peers = dict.fromkeys(PEERS, {})
    if arguments.burn and report["bias"]:
        parser.error("burn is measured without a bias, and ours has one")
    if arguments.burn:
        peers["burn"], burn_versions = read_burn(arguments.burn)
        versions.append(burn_versions)

    stopwatch = Stopwatch(report["repeats"])
    rates = measure_rates(stopwatch)
    peers["torch"] = run_peer(run_torch, report["rows"], report["bias"], stopwatch)
    if jax and not arguments.without_jax:
        versions.append(f"JAX {jax.__version__}")
        # PyTorch is through: JAX keeps what memory it takes.
        peers["jax"] = run_peer(run_jax, report["rows"], report["bias"], stopwatch)

    versions = ", ".join(versions)
    rows = [join(row, rates, peers) for row in report["rows"]]
    print(f"{torch.cuda.get_device_name()}, {versions}; median of {report['repeats']} launches.")
    packing = "packed by every launch" if report["repack"] else "packed beforehand"
    print(f"A copy: {rates['copy_gb_per_s']:.0f} GB/s; cuBLAS TF32: {rates['tf32_tflop_per_s']:.0f} TFLOP/s.", end=" ")
    print(f"Our weight is {packing}. {'With a bias.' if report['bias'] else 'No bias.'}")
    print_all(rows)
    if arguments.json:
        ours = {name: report[name] for name in ["device", "repack", "bias"]}
        joined = ours | {"versions": versions, **rates, "rows": rows}
        arguments.json.write_text(json.dumps(joined, indent=1))


if __name__ == "__main__":
    main()
