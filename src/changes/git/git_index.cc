#include "changes/git/git_index.h"

#include <cstdint>
#include <optional>

#include "base/limits.h"

namespace warren {
namespace {

constexpr std::size_t kStatBytes = 40;  // times, device, inode, mode, owner and size of a file
constexpr std::uint64_t kExtended = 0x4000;
constexpr unsigned kStageShift = 12;
constexpr std::uint64_t kStageMask = 3;
constexpr std::size_t kPadding = 8;

// Takes the entries of an index from its beginning. nullopt at the end of the text.
class IndexEntries {
 public:
  IndexEntries(std::string_view text, std::size_t id_bytes) : text_(text), id_bytes_(id_bytes) {}

  // The number of entries; nullopt for another format.
  std::optional<std::uint64_t> begin() {
    bool is_index = text_.starts_with("DIRC");
    at_ = 4;
    std::optional<std::uint64_t> version = number(4);
    std::optional<std::uint64_t> count = number(4);
    if (!is_index || !count || *version < 2 || *version > 4) return std::nullopt;
    version_ = *version;
    return count;
  }

  // Takes an entry and returns its stage, 0 if it is merged.
  std::optional<std::uint64_t> next_stage() {
    std::size_t start = at_;
    at_ += kStatBytes + id_bytes_;
    std::optional<std::uint64_t> flags = number(2);
    if (flags && (*flags & kExtended) != 0) at_ += 2;
    if (!flags || !take_name()) return std::nullopt;
    if (version_ < 4) at_ += (kPadding - (at_ - start) % kPadding) % kPadding;
    return (*flags >> kStageShift) & kStageMask;
  }

  const std::string& name() const { return name_; }  // of the last entry

 private:
  // Big endian.
  std::optional<std::uint64_t> number(std::size_t bytes) {
    if (at_ > text_.size() || text_.size() - at_ < bytes) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(text_[at_ + i]);
    at_ += bytes;
    return value;
  }

  // In version 4 it begins with the number of bytes that are cut from the end of the name before it. The rest of that
  // name costs nothing in the text, so it is the length of the whole name that must be limited.
  bool take_name() {
    std::size_t kept = 0;
    if (version_ == 4) {
      std::optional<std::uint64_t> cut = varying_number();
      if (!cut || *cut > name_.size()) return false;
      kept = name_.size() - static_cast<std::size_t>(*cut);
    }
    std::size_t end = at_ < text_.size() ? text_.find('\0', at_) : text_.npos;
    if (end == text_.npos || kept + (end - at_) > limits::kPathBytes) return false;
    name_.resize(kept);
    name_ += text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  // Seven bits in a byte, the highest first; each further byte adds one, so that no number has two forms.
  std::optional<std::uint64_t> varying_number() {
    std::optional<std::uint64_t> byte = number(1);
    std::uint64_t value = byte.value_or(0) & 0x7f;
    while (byte && (*byte & 0x80) != 0) {
      if (value > text_.size()) return std::nullopt;
      byte = number(1);
      value = (value + 1) << 7 | (byte.value_or(0) & 0x7f);
    }
    return byte ? std::optional(value) : std::nullopt;
  }

  std::string_view text_;
  std::size_t id_bytes_;
  std::size_t at_ = 0;
  std::uint64_t version_ = 0;
  std::string name_;
};

}  // namespace

Result<Unmerged> find_unmerged(std::string_view index, std::size_t id_bytes) {
  IndexEntries entries(index, id_bytes);
  std::optional<std::uint64_t> count = entries.begin();
  if (!count) return Error(Code::kCorrupt, "it is not an index of git");
  Unmerged found;
  std::string last;
  for (std::uint64_t i = 0; i < *count; ++i) {
    std::optional<std::uint64_t> stage = entries.next_stage();
    if (!stage) return Error(Code::kCorrupt, "an index of git ends too early or has a name that is too long");
    if (*stage == 0 || (found.count > 0 && entries.name() == last)) continue;
    last = entries.name();
    if (found.count++ < limits::kUnmergedNames) found.names.push_back(last);
  }
  return found;
}

}  // namespace warren
