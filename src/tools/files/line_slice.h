// Lines of a file, read in pieces: a file of any size takes little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// A file up to this size is read to its end, so that its lines are counted and it has a revision. Only such a file can
// be edited.
inline constexpr std::uint64_t kEditedBytes = std::uint64_t{64} << 20;

struct SliceOptions {
  std::size_t offset = 1;  // the first line, from 1
  std::size_t column = 1;  // the first byte of that line, from 1
  std::size_t limit = 2000;
  std::size_t bytes_max = std::size_t{256} << 10;
};

struct LineSlice {
  std::string text;
  std::string beginning;                     // of the file, to tell what kind of content it is
  bool is_text = true;                       // the beginning and `text` are
  std::size_t line_count = 0;                // that `text` has at least part of
  std::optional<std::uint64_t> total_lines;  // unless the file is large and was not read to its end
  std::string revision;                      // of the whole content; empty in the same case
  // Where to go on; both 0 if `text` reaches the end.
  std::size_t next_offset = 0;
  std::size_t next_column = 0;
};

Result<LineSlice> read_line_slice(FileSystem& fs, const Attributes& file, const SliceOptions& options);

// The same of a text in memory.
LineSlice slice_text(std::string_view text, const SliceOptions& options);

// Reads the file to its end, whatever its size.
Result<std::uint64_t> count_file_lines(FileSystem& fs, const Attributes& file);

// Names a content: equal exactly if the contents are.
std::string revision_of(std::string_view content);

}  // namespace warren
