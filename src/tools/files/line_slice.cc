#include "tools/files/line_slice.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "crypto/digest.h"
#include "text/lines.h"
#include "text/mime.h"

namespace warren {
namespace {

constexpr std::size_t kBeginningBytes = std::size_t{64} << 10;
constexpr std::size_t kRevisionDigits = 16;

// The file stays while it is read, even if its name is removed.
class OpenNode {
 public:
  static Result<OpenNode> open(FileSystem& fs, Inode node) {
    WARREN_TRY(fs.open(node));
    return OpenNode(fs, node);
  }
  OpenNode(OpenNode&& other) noexcept : fs_(other.fs_), node_(std::exchange(other.node_, Inode())) {}
  OpenNode& operator=(OpenNode&&) = delete;
  ~OpenNode() {
    if (node_ != Inode()) fs_.release(node_);
  }

 private:
  OpenNode(FileSystem& fs, Inode node) : fs_(fs), node_(node) {}
  FileSystem& fs_;
  Inode node_;
};

// Takes the asked lines out of a content that comes in blocks.
class LineSlicer {
 public:
  explicit LineSlicer(const SliceOptions& options) : options_(options) {}

  void add(std::string_view block) {
    while (!block.empty() && !is_full_) {
      if (line_ < options_.offset || column_ < first_column()) skip(block);
      else if (line_ - options_.offset >= options_.limit) is_full_ = true;
      else take(block);
    }
  }
  bool is_full() const { return is_full_; }

  // Moves what was taken into the slice. A character that does not fit whole is left for the next one.
  void finish(LineSlice& slice) {
    if (is_full_) cut_character();
    slice.text = std::move(text_);
    slice.line_count = slice.text.empty() ? 0
                                          : static_cast<std::size_t>(std::ranges::count(slice.text, '\n')) +
                                                (slice.text.ends_with('\n') ? 0 : 1);
    if (!is_full_) return;
    slice.next_offset = line_;
    slice.next_column = column_;
  }

 private:
  std::size_t first_column() const { return line_ == options_.offset ? options_.column : 1; }

  void advance(std::string_view taken) {
    column_ += taken.size();
    if (!taken.ends_with('\n')) return;
    ++line_;
    column_ = 1;
  }

  void skip(std::string_view& block) {
    std::size_t end = block.find('\n');
    std::string_view line = end == block.npos ? block : block.substr(0, end + 1);
    if (line_ == options_.offset) line = line.substr(0, first_column() - column_);
    advance(line);
    block.remove_prefix(line.size());
  }

  void take(std::string_view& block) {
    std::size_t end = block.find('\n');
    std::string_view line = end == block.npos ? block : block.substr(0, end + 1);
    std::string_view fits = line.substr(0, options_.bytes_max - text_.size());
    text_ += fits;
    advance(fits);
    block.remove_prefix(fits.size());
    if (fits.size() < line.size()) is_full_ = true;
  }

  void cut_character() {
    std::size_t end = text_.size();
    while (end > 0 && text_.size() - end < 3 && (static_cast<unsigned char>(text_[end - 1]) & 0xC0U) == 0x80U) --end;
    if (end == 0 || text_[end - 1] == '\n' || (static_cast<unsigned char>(text_[end - 1]) & 0x80U) == 0) return;
    std::size_t start = end - 1;
    if (utf8_length(std::string_view(text_).substr(start)) != 0 || start == 0) return;  // whole, or nothing else left
    column_ -= text_.size() - start;
    text_.resize(start);
  }

  const SliceOptions& options_;
  std::string text_;
  std::size_t line_ = 1;
  std::size_t column_ = 1;
  bool is_full_ = false;
};

// Calls `visit` with each block until it returns false.
template <class Visit>
Status read_blocks(FileSystem& fs, const Attributes& file, const Visit& visit) {
  OpenNode open = WARREN_TRY(OpenNode::open(fs, file.inode));
  std::string block(limits::kCopyBytes, '\0');
  for (std::uint64_t offset = 0;;) {
    std::size_t count = WARREN_TRY(fs.read(file.inode, offset, as_mutable_bytes(block)));
    if (count == 0 || !visit(std::string_view(block).substr(0, count))) return Ok{};
    offset += count;
  }
}

}  // namespace

std::string revision_of(std::string_view content) { return sha256_hex(as_bytes(content)).substr(0, kRevisionDigits); }

Result<LineSlice> read_line_slice(FileSystem& fs, const Attributes& file, const SliceOptions& options) {
  LineSlice slice;
  LineSlicer slicer(options);
  Sha256 hash;
  std::uint64_t newlines = 0;
  bool is_cut = false;   // not read to the end
  bool is_open = false;  // the last line has no newline
  bool is_large = file.size > kEditedBytes;
  // A file that is read whole is read in one state.
  std::unique_ptr<Unit> unit;
  if (!is_large) unit = WARREN_TRY(fs.begin(UnitAccess::kRead));
  WARREN_TRY(read_blocks(fs, file, [&](std::string_view block) {
    if (slice.beginning.empty()) {
      slice.beginning = block.substr(0, kBeginningBytes);
      Extent extent = block.size() > kBeginningBytes || file.size > block.size() ? Extent::kBeginning : Extent::kWhole;
      slice.is_text = is_text(slice.beginning, extent);
    }
    if (slice.is_text) slicer.add(block);
    is_cut = is_large && (slicer.is_full() || !slice.is_text);
    if (is_cut) return false;
    hash.update(as_bytes(block));
    newlines += static_cast<std::uint64_t>(std::ranges::count(block, '\n'));
    is_open = !block.ends_with('\n');
    return true;
  }));
  slicer.finish(slice);
  slice.is_text = slice.is_text && is_text(slice.text);
  if (is_cut) return slice;
  slice.total_lines = newlines + (is_open ? 1 : 0);
  Sha256::Value value = hash.finish();
  slice.revision = hex_of(value).substr(0, kRevisionDigits);
  return slice;
}

LineSlice slice_text(std::string_view text, const SliceOptions& options) {
  LineSlice slice;
  LineSlicer slicer(options);
  slicer.add(text);
  slicer.finish(slice);
  slice.total_lines = count_lines(text);
  return slice;
}

Result<std::uint64_t> count_file_lines(FileSystem& fs, const Attributes& file) {
  std::uint64_t newlines = 0;
  bool is_open = false;
  WARREN_TRY(read_blocks(fs, file, [&](std::string_view block) {
    newlines += static_cast<std::uint64_t>(std::ranges::count(block, '\n'));
    is_open = !block.ends_with('\n');
    return true;
  }));
  return newlines + (is_open ? 1 : 0);
}

}  // namespace warren
