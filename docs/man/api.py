#!/usr/bin/env python3
"""The public C API as its headers document it.

    api.py names INCLUDE_DIR core|mpi        print the functions of one library
    api.py check INCLUDE_DIR                 check the comment of every function; exit 1 and say what is missing
    api.py pages INCLUDE_DIR OUT VERSION PART...   write one lake_*.3 for each function

Every function declared with LAKE_API carries a comment that begins with two asterisks: what it does, @param for what
needs saying, then the slots Ownership, Blocks, Threads, MPI, Errors, and Source where there is one. Standard library
only, since this runs in the build.
"""
import pathlib
import re
import sys

SLOTS = ["Ownership", "Blocks", "Threads", "MPI", "Errors"]
ALL_SLOTS = SLOTS + ["Source"]
DECLARATION = re.compile(r"(/\*\*(?P<comment>(?:(?!\*/).)*)\*/\s*)?^LAKE_API\s+(?P<text>[^;{]*);", re.S | re.M)


class Function:
    def __init__(self, header, comment, text):
        self.header = header
        self.text = re.sub(r"\s+", " ", text).strip()
        self.name = re.search(r"(\w+)\s*\(", self.text).group(1)
        inside = self.text[self.text.index("(") + 1:self.text.rindex(")")]
        self.arguments = [] if inside.strip() == "void" else [a.strip() for a in inside.split(",")]
        self.argument_names = [re.search(r"(\w+)\s*(\[[^]]*\])?$", a).group(1) for a in self.arguments]
        self.documented = comment is not None
        body = re.sub(r"^\s*\*? ?", "", comment or "", flags=re.M)
        body = re.sub(r"\s+", " ", body).strip()
        pieces = re.split(r"(?<!\w)(%s): " % "|".join(ALL_SLOTS), body)
        self.slots = {k: v.strip() for k, v in zip(pieces[1::2], pieces[2::2])}
        self.slot_order = pieces[1::2]
        head = re.split(r"@param (\w+)", pieces[0])
        self.description = head[0].strip()
        self.params = [(n, t.strip()) for n, t in zip(head[1::2], head[2::2])]

    @property
    def part(self):
        return "mpi" if self.header.name == "mpi.h" else "core"

    @property
    def summary(self):
        return re.split(r"[.:;](?: |$)", self.description, maxsplit=1)[0]

    def faults(self):
        if not self.documented:
            return ["has no comment"]
        found = []
        if not self.description:
            found.append("does not say what it does")
        for slot in SLOTS:
            if not self.slots.get(slot):
                found.append("has no slot " + slot)
        if len(set(self.slot_order)) != len(self.slot_order):
            found.append("has a slot twice")
        for name, text in self.params:
            if name not in self.argument_names:
                found.append("documents @param %s, which it does not take" % name)
            if not text:
                found.append("says nothing of @param %s" % name)
        return found


def functions(include):
    found = []
    for header in sorted(pathlib.Path(include, "lakestream").rglob("*.h")):
        text = header.read_text()
        here = [Function(header, m.group("comment"), m.group("text")) for m in DECLARATION.finditer(text)]
        declared = len(re.findall(r"^LAKE_API\b", text, re.M))
        if len(here) != declared:
            sys.exit("%s: %d functions are declared, %d could be read" % (header, declared, len(here)))
        found += here
    return found


def roff(text):
    """Plain text as roff: specials escaped, lines that look like requests shielded."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha")
    text = text.replace("~", "\\(ti").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", text)


def synopsis(function):
    first = function.text[:function.text.index("(") + 1]
    lines, line = [], first
    for i, argument in enumerate(function.arguments or ["void"]):
        piece = argument + (", " if i + 1 < len(function.arguments) else ");")
        if len(line) + len(piece) > 79 and line.strip() != first:
            lines.append(line.rstrip())
            line = "    "
        line += piece
    return lines + [line]


def page(function, version, known):
    header = "lakestream/mpi.h" if function.part == "mpi" else "lakestream/lakestream.h"
    out = ['.\\" Made from include/lakestream/%s by docs/man/api.py: change the comment there.' % function.header.name]
    out.append('.TH %s 3 "" "Lakestream %s" "Lakestream Manual"' % (function.name.upper(), version))
    out += [".SH NAME", "%s \\- %s" % (function.name, roff(function.summary)), ".SH SYNOPSIS", ".nf"]
    out += ["#include <%s>" % header, ".PP"] + [roff(l) for l in synopsis(function)]
    out += [".fi", ".SH DESCRIPTION", roff(function.description)]
    for name, text in function.params:
        out += [".TP", ".I " + name, roff(text)]
    if function.text.startswith("lake_status "):
        out += [".SH RETURN VALUE", "LAKE_OK, or one of the statuses under ERRORS. On failure nothing changed, the",
                "outputs are untouched, and", ".I err", "(which may be NULL) holds one line that says what failed."]
    for slot in ALL_SLOTS:
        if slot in function.slots:
            text = function.slots[slot]
            out += [".SH " + slot.upper(), roff(text[:1].upper() + text[1:])]
    mentioned = sorted(set(re.findall(r"\b(lake_\w+)\(\)", " ".join([function.description] + [t for _, t in function.params]
                           + list(function.slots.values())))) & known - {function.name})
    if mentioned:
        out.append(".SH SEE ALSO")
        for i, other in enumerate(mentioned):
            out.append(".BR %s (3)%s" % (other, "," if i + 1 < len(mentioned) else ""))
    return "\n".join(out) + "\n"


def main(argv):
    if len(argv) == 4 and argv[1] == "names":
        for function in functions(argv[2]):
            if function.part == argv[3]:
                print(function.name)
        return 0
    if len(argv) == 3 and argv[1] == "check":
        faults = [(f, fault) for f in functions(argv[2]) for fault in f.faults()]
        for function, fault in faults:
            print("%s: %s %s" % (function.header, function.name, fault), file=sys.stderr)
        return 1 if faults else 0
    if len(argv) >= 6 and argv[1] == "pages":
        out = pathlib.Path(argv[3])
        out.mkdir(parents=True, exist_ok=True)
        wanted = [f for f in functions(argv[2]) if f.part in argv[5:]]
        for stale in out.glob("*.3"):
            stale.unlink()
        for function in wanted:
            (out / (function.name + ".3")).write_text(page(function, argv[4], {f.name for f in wanted}))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
