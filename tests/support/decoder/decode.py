#!/usr/bin/python3
"""The second decoder: reads any Lakestream object, from docs/format alone, and prints it as one line of JSON.

It shares no code with the library; where the two disagree, one of them or the page is wrong. Needs Debian's
python3-zstandard and python3-xxhash. Exit status: 0 printed, 1 corrupt or unsupported, 2 usage.
"""
import json
import re
import struct
import sys

import xxhash
import zstandard

FORMAT = 1
MAN_MAX, SEG_MAX, FOOTER_MAX, SLICE_MAX = 64 << 20, 16 << 20, 2 << 20, 1 << 40
U64 = (1 << 64) - 1
COMPONENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
DTYPES = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8,
          "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "bool": 1}


class Corrupt(Exception):
    pass


class Unsupported(Exception):
    pass


def need(truth, why):
    if not truth:
        raise Corrupt(why)


def xxh3(data, seed=0):
    return xxhash.xxh3_64_intdigest(bytes(data), seed=seed)


def align64(n):
    return (n + 63) // 64 * 64


def id_text(raw):
    h = raw.hex()
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))


def id_bytes(text):
    need(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text), "id")
    return bytes.fromhex(text.replace("-", ""))


def check_version(version):
    need(version > 0, "format version 0")
    if version > FORMAT:
        raise Unsupported("format %d" % version)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def left(self):
        return len(self.data) - self.at

    def take(self, n):
        need(n <= self.left(), "ran past the end")
        self.at += n
        return self.data[self.at - n:self.at]

    def fixed(self, letter):
        return struct.unpack("<" + letter, self.take(struct.calcsize("<" + letter)))[0]

    def varint(self, most=U64, least=0):
        value = 0
        for i in range(10):
            byte = self.take(1)[0]
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                need(byte > 0 or i == 0, "varint is not in its shortest form")
                need(least <= value <= most, "number %d outside of %d to %d" % (value, least, most))
                return value
        raise Corrupt("varint too long")

    def blob(self, most):
        return self.take(self.varint(most))

    def text(self, most):
        raw = self.blob(most)
        need(0 not in raw, "NUL in a text")
        return raw.decode("utf-8")

    def component(self):
        text = self.text(64)
        need(COMPONENT.fullmatch(text), "id " + repr(text))
        return text

    def flags(self, known):
        flags = self.fixed("B")
        need(flags & ~known == 0, "reserved flags")
        return flags

    def end(self):
        need(self.left() == 0, "bytes after the last field")


def unzstd(data, size):
    """One zstd frame that states its content size."""
    need(size // 32768 <= len(data), "expands too much")
    params = zstandard.get_frame_parameters(data)
    need(params.content_size == size, "content size of the zstd frame")
    decoder = zstandard.ZstdDecompressor().decompressobj()
    out = decoder.decompress(data)
    need(decoder.eof and decoder.unused_data == b"" and len(out) == size, "zstd frame")
    return out


def open_envelope(data, most, zstd):
    need(len(data) >= 40, "shorter than its envelope")
    version, flags, reserved, stored, decoded, checksum = struct.unpack("<HHIQQQ", data[8:40])
    check_version(version)
    need(reserved == 0 and flags & ~(1 if zstd else 0) == 0, "reserved bits")
    need(stored <= most and decoded <= most and len(data) == 40 + stored, "lengths")
    body = data[40:]
    need(xxh3(body, xxh3(data[:32])) == checksum, "checksum")
    if flags & 1:
        return Reader(unzstd(body, decoded))
    need(stored == decoded, "lengths")
    return Reader(body)


def frame_list(r, count, most):
    start = r.at
    base = r.varint(SLICE_MAX + 32, 32)
    need(count <= r.left(), "frame list")
    above = [r.varint(SLICE_MAX + 32 - base) for _ in range(count)]
    need(r.at - start <= most and min(above) == 0, "frame list")
    return [base + a for a in above]


def descriptors(r, count, producer_count):
    need(count <= r.left() // 2, "number of descriptors")
    out, last = [], {}
    for i in range(count):
        head = r.flags(15)
        layout = ("", "uniform", "packed", "footer")[head & 3]
        producer = r.varint(producer_count - 1)
        if head & 4:
            need(producer in last, "next without one before")
            epoch, seq = last[producer][0], last[producer][1] + 1
            need(seq <= U64, "seq")
        else:
            epoch, seq = r.varint(least=1), r.varint()
        last[producer] = (epoch, seq)
        d = {"producer": producer, "epoch": str(epoch), "seq": str(seq)}
        if head & 8:
            need(i > 0 and layout == "uniform" and out[i - 1]["layout"] == "uniform", "same without one before")
            d.update((k, v) for k, v in out[i - 1].items() if k not in d)
        else:
            slices, footer = r.varint(65536, 1), r.varint(FOOTER_MAX, 1)
            d.update(object_bytes="", slice_count=slices, footer_bytes=footer, layout=layout)
            if layout == "uniform":
                frame = r.varint(SLICE_MAX + 32, 32)
                d.update(object_bytes=str(64 + slices * align64(frame) + footer), frame_bytes=str(frame))
            elif layout == "packed":
                each = frame_list(r, slices, 512)
                d.update(object_bytes=str(64 + sum(map(align64, each)) + footer),
                         frame_bytes_each=[str(n) for n in each])
            elif layout == "footer":
                d.update(object_bytes=str(r.varint(least=64 + footer)))
            else:
                raise Corrupt("layout 0")
        out.append(d)
    return out


def segment_refs(r, first):
    out = []
    count = r.varint(4096)
    need(count <= r.left() // 11, "number of segment references")
    for _ in range(count):
        level, steps, size = r.varint(12), r.varint(least=1), r.varint(SEG_MAX + 40, 1)
        version, checksum = r.varint(), r.fixed("Q")
        out.append({"level": level, "first_step": str(first), "step_count": str(steps), "object_bytes": size,
                    "version": str(version), "checksum": "%016x" % checksum})
        first += steps
        need(first <= U64, "steps")
    return out, first


def producer_entry(r, version):
    flags = r.flags(1)
    return {"id": r.component(), "epoch": str(r.varint(least=1)), "next_seq": str(r.varint()),
            "offset": str(r.varint()), "state": r.blob(256).hex(), "last_version": str(version - r.varint(version)),
            "retired": bool(flags & 1), "owner": r.text(128)}


def manifest(data):
    r = open_envelope(data, MAN_MAX, True)
    m = {"object": "manifest", "namespace": id_text(r.take(16)), "attempt": id_text(r.take(16)),
         "previous": id_text(r.take(16))}
    version = r.varint(least=1)
    m.update(version=str(version), sealed=bool(r.flags(1)), writer=r.text(193))
    next_step = r.varint()
    live = r.varint(next_step)
    m.update(next_step=str(next_step), first_live_step=str(live))
    count = r.varint(65536)
    need(count <= r.left() // 9, "number of producers")
    m["producers"] = [producer_entry(r, version) for _ in range(count)]
    first = r.varint(next_step)
    m["segments"], end = segment_refs(r, first)
    tail_count = r.varint(min(65536, next_step))
    tail_first = next_step - tail_count
    need(end == tail_first and first <= live, "steps")
    m["tail_first_step"] = str(tail_first)
    m["tail"] = descriptors(r, tail_count, count)
    quarantine = []
    for i in range(r.varint(4096)):
        quarantine.append(r.varint() if i == 0 else quarantine[-1] + r.varint(least=1))
        need(quarantine[-1] < next_step, "quarantine")
    m["quarantine"] = [str(q) for q in quarantine]
    r.end()
    expected = [int(p["next_seq"]) for p in m["producers"]]
    for d in reversed(m["tail"]):
        p = d["producer"]
        expected[p] -= 1
        need(int(d["seq"]) == expected[p] and int(d["epoch"]) <= int(m["producers"][p]["epoch"]), "seq of the tail")
    return m


def segment(data):
    r = open_envelope(data, SEG_MAX, False)
    s = {"object": "segment", "namespace": id_text(r.take(16)), "level": r.varint(12)}
    first = r.varint()
    if s["level"] > 0:
        children, end = segment_refs(r, first)
        need(children and all(c["level"] < s["level"] for c in children), "children")
        s.update(first_step=str(first), step_count=str(end - first), children=children)
    else:
        count = r.varint(65536)
        need(count <= r.left() // 2, "number of producers")
        ids = [r.component() for _ in range(count)]
        steps = r.varint(65536, 1)
        s.update(first_step=str(first), step_count=str(steps), producers=ids,
                 descriptors=descriptors(r, steps, count))
    r.end()
    return s


def frame(data, index, tgb_hash):
    need(len(data) >= 32, "frame")
    magic, where, size, codec, checksum = struct.unpack("<4sIQQQ", data[-32:])
    need(magic == b"LFRM" and where == index, "frame")
    need(xxh3(data[:-8], tgb_hash) == checksum, "checksum of slice %d" % index)
    if codec not in (1, 2):
        raise Unsupported("codec %d" % codec)
    need(size <= SLICE_MAX, "slice length")
    content = data[:-32] if codec == 1 else unzstd(data[:-32], size)
    need(len(content) == size, "slice length")
    return ("", "none", "zstd")[codec], content


def tgb(data):
    need(len(data) >= 64 + 24, "shorter than header and footer")
    version, flags, reserved = struct.unpack("<HHI", data[8:16])
    check_version(version)
    need(xxh3(data[:56]) == struct.unpack("<Q", data[56:64])[0], "checksum of the header")
    need(flags == 0 and reserved == 0 and data[40:56] == bytes(16), "reserved bits")
    size, version, flags, magic, checksum = struct.unpack("<IHH8sQ", data[-24:])
    need(magic == b"LAKE-FTR", "magic of the footer")
    check_version(version)
    need(24 <= size <= min(FOOTER_MAX, len(data)) and flags == 0, "footer")
    need(xxh3(data[-size:-8]) == checksum, "checksum of the footer")
    r = Reader(data[-size:-24])
    namespace, producer, epoch, seq = r.take(16), r.component(), r.varint(), r.varint()
    frames = frame_list(r, r.varint(65536, 1), FOOTER_MAX)
    r.end()
    need(64 + sum(map(align64, frames)) + size == len(data), "length of the object")
    tgb_hash = xxh3(namespace + struct.pack("<QQ", epoch, seq) + producer.encode())
    need(data[16:32] == namespace and data[32:40] == struct.pack("<Q", tgb_hash), "header and footer disagree")
    slices, at = [], 64
    for i, n in enumerate(frames):
        codec, content = frame(data[at:at + n], i, tgb_hash)
        need(not any(data[at + n:at + align64(n)]), "padding")
        slices.append({"offset": str(at), "frame_bytes": str(n), "codec": codec, "slice_bytes": str(len(content)),
                       "content": "%016x" % xxh3(content)})
        at += align64(n)
    return {"object": "tgb", "namespace": id_text(namespace), "producer": producer, "epoch": str(epoch),
            "seq": str(seq), "object_bytes": str(len(data)), "slices": slices}


def integer(value, least=0, most=U64):
    need(isinstance(value, (int, str)) and not isinstance(value, bool), "not an integer")
    need(re.fullmatch(r"0|[1-9][0-9]*", str(value)) and least <= int(value) <= most, "integer %s" % value)
    return int(value)


def tensor(spec, rows, at):
    need(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", spec["name"]), "tensor name")
    if spec["dtype"] not in DTYPES:
        raise Unsupported("dtype " + spec["dtype"])
    shape = [integer(n, 1) for n in spec["shape"]]
    need(len(shape) <= 7, "rank")
    size = rows * DTYPES[spec["dtype"]]
    for n in shape:
        size *= n
    return {"name": spec["name"], "dtype": spec["dtype"], "shape": [str(n) for n in shape], "offset": str(at),
            "bytes": str(size)}, at + align64(size)


def namespace(doc):
    if doc["layout"] != "contiguous" or doc["codec"] not in ("none", "zstd"):
        raise Unsupported("layout or codec")
    mesh = {"d": integer(doc["mesh"]["d"], 1), "c": integer(doc["mesh"]["c"], 1)}
    rows, at, tensors = integer(doc["rows_per_slice"], 1, 1 << 24), 0, []
    for spec in doc["tensors"]:
        item, at = tensor(spec, rows, at)
        tensors.append(item)
    need(mesh["d"] * mesh["c"] <= 65536 and len(tensors) <= 64 and at <= SLICE_MAX, "limits")
    need(len({t["name"] for t in tensors}) == len(tensors) and (tensors or rows == 1), "tensors")
    need(len(doc["note"].encode()) <= 1024, "note")
    check = doc.get("store_check")
    checked = {"store_check": check} if check in ("passed", "forced") else {}
    return {"object": "namespace", "uuid": id_text(id_bytes(doc["uuid"])), "mesh": mesh, "rows_per_slice": rows,
            "codec": doc["codec"], "tail_max": integer(doc["tail_max"], 1, 8192),
            "version_block": integer(doc["version_block"], 1, 1 << 20), "tensors": tensors,
            "slice_bytes": str(at), "note": doc["note"], **checked}


def pin(doc):
    return {"object": "pin", "namespace": id_text(id_bytes(doc["namespace"])), "row": str(integer(doc["row"])),
            "step": str(integer(doc["step"])), "version": str(integer(doc["version"]))}


def document(data):
    try:
        doc = json.loads(data.decode("utf-8"))
        kind = {"lakestream-namespace": namespace, "lakestream-pin": pin}[doc["kind"]]
        check_version(integer(doc["format"]))
        seal = b'\t"check":\t"%016x"\n}\n' % xxh3(data[:-31])
        need(len(data) <= 1 << 20 and data[-31:] == seal, "check")
        return kind(doc)
    except (KeyError, TypeError, ValueError) as e:
        raise Corrupt("JSON: %r" % e)


def line(data):
    text = data.decode("ascii", "replace")
    hint = re.fullmatch(r"(lakehint1-(0|[1-9][0-9]*)-)([0-9a-f]{8})\n", text)
    if hint:
        need("%08x" % (xxh3(hint[1].encode()) & 0xffffffff) == hint[3], "check")
        return {"object": "hint", "version": str(integer(hint[2]))}
    if re.match(r"lake[2-9]-", text):
        raise Unsupported("cursor of a later format")
    cursor = re.fullmatch(r"(lake1-([0-9a-f]{32})-(0|[1-9][0-9]*)-(0|[1-9][0-9]*)-)([0-9a-f]{8})", text)
    need(cursor, "of no kind that is known")
    need("%08x" % (xxh3(cursor[1].encode()) & 0xffffffff) == cursor[5], "check")
    return {"object": "cursor", "namespace": id_text(bytes.fromhex(cursor[2])), "row": str(integer(cursor[3])),
            "version": str(integer(cursor[4]))}


def decode(data):
    kinds = {b"LAKE-MAN": manifest, b"LAKE-SEG": segment, b"LAKE-TGB": tgb}
    if data[:8] in kinds:
        return kinds[data[:8]](data)
    return document(data) if data[:1] == b"{" else line(data)


def main(names):
    if not names:
        print("usage: decode.py FILE...", file=sys.stderr)
        return 2
    for name in names:
        with open(name, "rb") as f:
            data = f.read()
        try:
            print(json.dumps(decode(data), separators=(",", ":"), ensure_ascii=False))
        except (Corrupt, Unsupported, UnicodeDecodeError, zstandard.ZstdError) as e:
            print("%s: %s: %s" % (name, type(e).__name__.lower(), e), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
