#!/usr/bin/env python3
"""Prints the table of bench/run: Warren's rates, and their ratios to each rival's."""
import json
import sys

ROWS = ["write_file", "read_file", "stat", "stat_deep", "readdir_1000", "write_big", "read_big", "pread_4k",
        "kv_set", "kv_get", "tool_record", "unlink_file"]


def rates(path):
    """operation → contender → calls or bytes per second"""
    table = {}
    for run in json.load(open(path))["benchmarks"]:
        operation, contender = run["name"].split("/")[:2]
        per_second = run.get("bytes_per_second") or run.get("items_per_second") or 1e9 / run["real_time"]
        table.setdefault(operation, {})[contender] = per_second
    return table


def show(value, unit_is_bytes):
    if value is None:
        return "-"
    return f"{value / 1e6:,.0f} MB/s" if unit_is_bytes else f"{value:,.0f}/s"


def ratio(ours, theirs):
    return "-" if not ours or not theirs else f"{ours / theirs:.3g}x"


def main():
    own, rival = rates(sys.argv[1]), json.load(open(sys.argv[2]))
    print(f"{'operation':<14}{'mode':<9}{'Warren':>14}{'AgentFS SDK':>14}{'ratio':>8}{'ext4':>14}{'ratio':>8}"
          f"{'bare SQLite':>14}{'ratio':>8}")
    for operation in ROWS:
        found = own[operation]
        is_bytes = operation.endswith("_big")
        modes = ["power", "process", "batch"] if "warren_power" in found else [""]
        for mode in modes:
            suffix = f"_{mode}" if mode else ""
            ours = found.get("warren" + suffix)
            if ours is None:
                continue
            ext4, bare, sdk = found.get("ext4" + suffix), found.get("sqlite" + suffix), rival.get(operation)
            print(f"{operation:<14}{mode:<9}{show(ours, is_bytes):>14}{show(sdk, is_bytes):>14}{ratio(ours, sdk):>8}"
                  f"{show(ext4, is_bytes):>14}{ratio(ours, ext4):>8}{show(bare, is_bytes):>14}{ratio(ours, bare):>8}")
    print("\npower: each call survives a power cut (AgentFS's SDK syncs too). process: it survives a killed process."
          "\nbatch: 100 calls a transaction, power-safe. Ratios are Warren's rate over the rival's: above 1 is faster.")


if __name__ == "__main__":
    main()
