#!/usr/bin/env python3
"""Fails on any include that src/LAYERS does not allow, on third-party headers out of their room, on names that are put
into a message without quote(), which makes them safe for a terminal, on doors that reach around an agent's stack, and on
rooms (folders inside a module) that docs/design/README.md does not name."""
import pathlib
import re
import sys

# A third-party header belongs to one module; everyone else uses that module's own types.
OWNERS = {"sqlite3.h": "db", "nlohmann/": "base", "fuse": "fuse", "linux/fuse.h": "fuse", "seccomp.h": "sandbox", "openssl/": "crypto", "httplib.h": "net", "microhttpd.h": "net", "hiredis/": "clients",
          "curl/": "clients", "expat.h": "clients", "magic.h": "documents", "libxml/": "documents", "iconv.h": "documents", "libpq-fe.h": "pg", "toml++/": "toml", "re2/": "context"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


# Doors get the top of an agent's stack, and no accessor that leads around it: an Agent's store() and overlay() are for
# the modules below them (`agent`, and `changes`, which works on the layers).
DOORS = ("api", "session", "mcp", "cli")
AROUND = re.compile(r"\bagent_?(?:->|\.)(?:store|overlay)\(\)")

# A placeholder in quotes, within a string: "no file '{}'".
BARE_NAME = re.compile(r"""^(?!\s*//).*".*'\{\d*\}'.*\"""")


def read_layers(path):
    layers = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, allowed = line.partition(":")
            layers[name.strip()] = allowed.split()
    return layers


def violations(root):
    src = root / "src"
    layers = read_layers(src / "LAYERS")
    order = list(layers)
    for module, allowed in layers.items():
        for lower in allowed:
            if lower not in layers or order.index(lower) >= order.index(module):
                yield f"src/LAYERS: '{module}' may not stand on '{lower}': it is not below it"
    for folder in sorted(p.name for p in src.iterdir() if p.is_dir()):
        if folder not in layers and folder != "testing":
            yield f"src/{folder}: not in src/LAYERS"
    design = (root / "docs/design/README.md").read_text()
    for room in sorted(str(p.relative_to(src)) for p in src.glob("*/*") if p.is_dir()):
        if f"| `{room}` |" not in design:
            yield f"src/{room}: say in docs/design/README.md, \"Rooms\", what belongs there"
    for file in sorted(src.rglob("*")):
        if file.suffix not in (".h", ".cc"):
            continue
        module = file.relative_to(src).parts[0]
        is_test = file.name.endswith(("_test.cc", "_testing.cc", "_testing.h"))
        for number, line in enumerate(file.read_text().splitlines(), 1):
            where = f"{file.relative_to(root)}:{number}"
            if BARE_NAME.match(line) and not is_test:
                yield f"{where}: write {{}} and quote(name) instead of '{{}}', so that the name is made printable"
            if module in DOORS and not is_test and AROUND.search(line):
                yield f"{where}: a door does not reach into an agent's layers (agent/agent.h, agent/agent_state.h)"
            match = INCLUDE.match(line)
            if not match:
                continue
            quoted, header = match.group(1) == '"', match.group(2)
            top = header.split("/")[0]
            if quoted and top == "testing" and (is_test or module == "testing"):
                continue
            if quoted and module != "testing" and top != module and top not in layers.get(module, []):
                yield f"{where}: '{module}' may not include '{header}'"
            for prefix, owner in OWNERS.items():
                if not quoted and header.startswith(prefix) and module != owner:
                    yield f"{where}: only '{owner}' may include <{header}>"


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "every include is allowed, every name in a message is quoted, no door reaches around an agent's stack, and every room is in the design's table")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
