"""Reads what a text feeder wrote, from the files themselves, so that a comparison does not lean on the code under test.

    tgb.py digest ROOT PRODUCER      number of TGBs and a SHA-256 over their slices in the order of seq
    tgb.py documents ROOT PRODUCER   the documents as a JSON list, after checking every tensor

A TGB's object: 64 bytes, then for each slice a frame on a 64-byte boundary: the slice and 32 bytes. Uncompressed only.
"""
import glob
import hashlib
import json
import struct
import subprocess
import sys

BOS, EOS, PAD = 256, 257, 258


def tgbs(root, producer):
    ls = json.loads(subprocess.run(["lake", "ls", "file:" + root, "--json"], check=True, stdout=subprocess.PIPE).stdout)
    ns = ls["namespace"]
    steps = [(int(s["seq"]), int(s["epoch"])) for s in ls["steps"] if s["producer"] == producer]
    assert [s for s, _ in steps] == list(range(len(steps))), "seqs have a gap, a repeat or another order"
    slice_bytes = int(ns["slice_bytes"])
    for seq, epoch in steps:
        found = glob.glob(f"{root}/data/??/{producer}/{epoch:010d}-{seq:020d}.tgb")
        assert len(found) == 1, found
        data = open(found[0], "rb").read()
        stride = (slice_bytes + 32 + 63) // 64 * 64
        count = ns["mesh"]["d"] * ns["mesh"]["c"]
        yield ns, [data[64 + i * stride:64 + i * stride + slice_bytes] for i in range(count)]


def rows(ns, slices):
    """Each row as five lists, its chunks joined."""
    d_count, c_count, r_count = ns["mesh"]["d"], ns["mesh"]["c"], ns["rows_per_slice"]
    for d in range(d_count):
        for r in range(r_count):
            row = []
            at = 0
            for t in ns["tensors"]:
                n, code = int(t["shape"][0]), {"u16": "H", "i32": "i", "u8": "B"}[t["dtype"]]
                size = struct.calcsize(code)
                values = []
                for c in range(c_count):
                    values += struct.unpack_from(f"<{n}{code}", slices[d * c_count + c], at + r * n * size)
                row.append(values)
                at = (at + r_count * n * size + 63) // 64 * 64
            yield row


def documents(root, producer):
    found, stream, padded = [], [], False
    for ns, slices in tgbs(root, producer):
        for tokens, labels, positions, segments, mask in rows(ns, slices):
            segment = position = 0
            for i, token in enumerate(tokens):
                assert not padded or token == PAD, "a token after padding"
                if token == PAD:
                    padded = True
                    assert (labels[i], positions[i], segments[i], mask[i]) == (PAD, 0, 0, 0)
                    continue
                if i == 0 or token == BOS:
                    segment, position = segment + 1, 0
                assert (positions[i], segments[i]) == (position, segment), (i, positions[i], segments[i])
                assert mask[i] == (labels[i] != PAD)
                position += 1
                stream.append((token, labels[i]))
    assert all(label == PAD if token == EOS else True for token, label in stream)
    assert all(a[1] == b[0] for a, b in zip(stream, stream[1:]) if a[0] != EOS), "a label is not the next token"
    text = None
    for token, _ in stream:
        if token == BOS:
            assert text is None
            text = bytearray()
        elif token == EOS:
            found.append(text.decode())
            text = None
        else:
            text.append(token)
    return found, text


if __name__ == "__main__":
    what, root, producer = sys.argv[1:]
    if what == "digest":
        digest, count = hashlib.sha256(), 0
        for _, slices in tgbs(root, producer):
            count += 1
            for s in slices:
                digest.update(s)
        print(count, digest.hexdigest())
    else:
        print(json.dumps(documents(root, producer)[0]))
