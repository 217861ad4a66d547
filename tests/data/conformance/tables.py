"""Writes a table: a manifest with one row a line, and the tensors that its rows name."""

import json
import pathlib

from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent


def write(name, facts, lists, tensors):
    """Writes NAME.json with the facts and the lists of rows, and NAME.safetensors. The same arguments give the same bytes."""
    entries = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items()]
    for key, rows in lists.items():
        lines = ",\n  ".join(json.dumps(row) for row in rows)
        entries.append(f"{json.dumps(key)}: [\n  {lines}\n ]")
    (HERE / f"{name}.json").write_text("{\n " + ",\n ".join(entries) + "\n}\n")
    save_file(tensors, HERE / f"{name}.safetensors")
