#include "text/diff/git_patch.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/binary.h"
#include "text/diff/git_binary.h"

namespace warren {
namespace {

// The file kinds of stat, which are the same on every system; this module includes no system header.
constexpr std::uint32_t kKindMask = 0170000;
constexpr std::uint32_t kSymlinkKind = 0120000;
constexpr std::uint32_t kOwnerExecutes = 0100;

// The letter of a C escape, or 0.
char escape_letter(char c) {
  switch (c) {
    case '\a': return 'a';
    case '\b': return 'b';
    case '\t': return 't';
    case '\n': return 'n';
    case '\v': return 'v';
    case '\f': return 'f';
    case '\r': return 'r';
    case '"': return '"';
    case '\\': return '\\';
    default: return 0;
  }
}

bool needs_octal(char c) {
  auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte >= 0x7F;
}

std::string_view relative(std::string_view path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return path;
}

constexpr std::string_view kNoFile = "/dev/null";

// The name of a side in its "---" or "+++" line. A tab after a name with a space marks its end for programs that expect
// a time there.
std::string label_line(std::string_view marker, std::string_view label) {
  return fmt::format("{} {}{}\n", marker, label, label.find(' ') == label.npos ? "" : "\t");
}

// One patch: both sides have the same kind, or there is only one side.
class PatchWriter {
 public:
  PatchWriter(const PatchSide* before, const PatchSide* after)
      : before_(before),
        after_(after),
        old_path_(relative((before != nullptr ? before : after)->path)),
        new_path_(relative((after != nullptr ? after : before)->path)),
        old_text_(before != nullptr ? before->content : std::string_view()),
        new_text_(after != nullptr ? after->content : std::string_view()) {}

  std::string write(UnifiedOptions options, BinaryContent binary) {
    hunks_ = diff_lines(old_text_, new_text_);
    std::string header = modes() + renames();
    if (header.empty() && hunks_.empty()) return {};
    std::string out = fmt::format("diff --git {} {}\n", git_quote("a/", old_path_), git_quote("b/", new_path_));
    return out + header + content(options, binary);
  }

 private:
  std::string modes() const {
    if (before_ == nullptr) return fmt::format("new file mode {:06o}\n", git_mode(after_->mode));
    if (after_ == nullptr) return fmt::format("deleted file mode {:06o}\n", git_mode(before_->mode));
    std::uint32_t was = git_mode(before_->mode);
    std::uint32_t is = git_mode(after_->mode);
    return was == is ? "" : fmt::format("old mode {:06o}\nnew mode {:06o}\n", was, is);
  }

  std::string renames() const {
    if (old_path_ == new_path_) return {};
    return fmt::format("similarity index {}%\nrename from {}\nrename to {}\n",
                       similarity_percent(old_text_, new_text_, hunks_), git_quote("", old_path_),
                       git_quote("", new_path_));
  }

  std::string content(UnifiedOptions options, BinaryContent binary) const {
    if (hunks_.empty()) return {};
    std::string was = before_ == nullptr ? std::string(kNoFile) : git_quote("a/", old_path_);
    std::string is = after_ == nullptr ? std::string(kNoFile) : git_quote("b/", new_path_);
    if (is_binary(old_text_) || is_binary(new_text_)) {
      if (binary == BinaryContent::kMentioned) return fmt::format("Binary files {} and {} differ\n", was, is);
      return index_line() + git_binary_patch(old_text_, new_text_);
    }
    return label_line("---", was) + label_line("+++", is) + unified_hunks(old_text_, new_text_, hunks_, options);
  }

  std::string index_line() const {
    const std::string none(40, '0');
    std::string was = before_ == nullptr ? none : git_blob_id(old_text_);
    std::string is = after_ == nullptr ? none : git_blob_id(new_text_);
    bool has_one_mode = before_ != nullptr && after_ != nullptr && git_mode(before_->mode) == git_mode(after_->mode);
    return fmt::format("index {}..{}{}\n", was, is, has_one_mode ? fmt::format(" {:06o}", git_mode(after_->mode)) : "");
  }

  const PatchSide* before_;  // null: the file is new
  const PatchSide* after_;   // null: the file is deleted
  std::string_view old_path_;
  std::string_view new_path_;
  std::string_view old_text_;
  std::string_view new_text_;
  std::vector<Hunk> hunks_;
};

}  // namespace

std::uint32_t git_mode(std::uint32_t mode) {
  if ((mode & kKindMask) == kSymlinkKind) return kSymlinkKind;
  return (mode & kOwnerExecutes) != 0 ? 0100755 : 0100644;
}

std::string git_quote(std::string_view prefix, std::string_view path) {
  auto is_special = [](char c) { return needs_octal(c) || escape_letter(c) != 0; };
  if (std::none_of(path.begin(), path.end(), is_special)) return std::string(prefix).append(path);
  std::string out = "\"";
  out += prefix;
  for (char c : path) {
    if (char letter = escape_letter(c); letter != 0) {
      out += '\\';
      out += letter;
    } else if (needs_octal(c)) {
      fmt::format_to(std::back_inserter(out), "\\{:03o}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string git_patch(const FilePatch& file, UnifiedOptions options, BinaryContent binary) {
  const PatchSide* before = file.before ? &*file.before : nullptr;
  const PatchSide* after = file.after ? &*file.after : nullptr;
  if (before == nullptr && after == nullptr) return {};
  bool both = before != nullptr && after != nullptr;
  if (both && (git_mode(before->mode) == kSymlinkKind) != (git_mode(after->mode) == kSymlinkKind)) {
    return PatchWriter(before, nullptr).write(options, binary) + PatchWriter(nullptr, after).write(options, binary);
  }
  return PatchWriter(before, after).write(options, binary);
}

}  // namespace warren
