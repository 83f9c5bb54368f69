#!/usr/bin/env python3
"""Runs the tests of the S3 store against MinIO instead of Ceph.

    minio.py S3_BLOBS_TEST [ARGUMENTS]
"""
import os
import subprocess
import sys
import tempfile

import go_program

VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"  # its releases are no versions of a Go module
# MinIO keeps objects as files: it has no empty names, and "a/b" only where there is no "a".
IMPOSSIBLE = ["S3Blobs.AnObjectIsPlainForOtherClients", "*.AKeyMayAlsoBeTheFolderOfOthers/*",
              "*.S4_1_AListingIsByPrefixOfBytes/*", "*.AListingByFolderFoldsWhatIsBelow/*"]


def main():
    with tempfile.TemporaryDirectory() as scratch:
        program = go_program.find_or_build("WARREN_MINIO", "github.com/minio/minio", VERSION, (1, 24), scratch)
        command = [*sys.argv[1:], f"--gtest_filter=-{':'.join(IMPOSSIBLE)}"]
        sys.exit(subprocess.run(command, env=os.environ | {"WARREN_MINIO": str(program)}).returncode)


if __name__ == "__main__":
    main()
