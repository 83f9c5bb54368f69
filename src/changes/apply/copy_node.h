// Copies single nodes from one tree to another: content, permission bits, owner, extended attributes and times.
#pragma once

#include <string>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// Streams a regular file's content over that of another; holes stay holes. Both paths must be of regular files.
Status copy_file_content(FileSystem& from, const std::string& from_path, FileSystem& to, const std::string& to_path);

// kDenied if the first is encrypted and the second is not. The functions below and above say so, too.
Status check_stays_encrypted(FileSystem& from, const std::string& from_path, FileSystem& to,
                             const std::string& to_path);

// Makes a node like the one at `from_path`, which `node` describes, at a free path in an existing directory. A
// directory is made without its entries.
Status copy_node(FileSystem& from, const std::string& from_path, const Attributes& node, FileSystem& to,
                 const std::string& to_path);

}  // namespace warren
