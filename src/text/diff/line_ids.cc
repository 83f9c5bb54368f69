#include "text/diff/line_ids.h"

#include <algorithm>
#include <functional>
#include <span>

#include "base/check.h"
#include "text/lines.h"

namespace warren {
namespace {

// One line of either side: its hash in the high half, its index in the low half, so that keys sort by both. The index
// tells the sides apart: the lines of the new text follow those of the old.
using Key = std::uint64_t;

std::uint32_t index_of(Key key) { return static_cast<std::uint32_t>(key); }
std::uint32_t hash_of(Key key) { return static_cast<std::uint32_t>(key >> 32); }

Key make_key(std::string_view line, std::size_t index) {
  std::uint64_t hash = std::hash<std::string_view>()(line);
  return ((hash ^ (hash >> 32)) << 32) | index;
}

constexpr int kBucketBits = 14;

// Sorts keys that arrive ordered by index. They are first distributed by the top bits of their hashes: each part then
// fits into the caches, or has only one hash and is already in order.
void sort_keys(std::vector<Key>& keys) {
  auto bucket_of = [](Key key) { return static_cast<std::size_t>(key >> (64 - kBucketBits)); };
  std::vector<std::size_t> ends((std::size_t{1} << kBucketBits) + 1);
  for (Key key : keys) ++ends[bucket_of(key) + 1];
  for (std::size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
  std::vector<Key> dealt(keys.size());
  for (Key key : keys) dealt[ends[bucket_of(key)]++] = key;
  keys.swap(dealt);
  std::size_t begin = 0;
  for (std::size_t end : ends) {
    auto bucket = std::span(keys).subspan(begin, end - begin);
    if (!std::is_sorted(bucket.begin(), bucket.end())) std::sort(bucket.begin(), bucket.end());
    begin = end;
  }
}

class Numbering {
 public:
  Numbering(std::string_view old_text, std::string_view new_text) : texts_{old_text, new_text} {
    old_lines_ = count_lines(old_text);
    std::size_t lines = old_lines_ + count_lines(new_text);
    WARREN_CHECK(lines < kNoMatch);
    starts_.reserve(lines);
    keys_.reserve(lines);
    add(old_text);
    add(new_text);
    ids_.resize(lines, kNoMatch);
  }

  LineIds run() {
    sort_keys(keys_);
    for (std::size_t begin = 0, end = 0; begin < keys_.size(); begin = end) {
      while (end < keys_.size() && hash_of(keys_[end]) == hash_of(keys_[begin])) ++end;
      number_same_hash(std::span(keys_).subspan(begin, end - begin));
    }
    auto middle = ids_.begin() + static_cast<std::ptrdiff_t>(old_lines_);
    return {.old_ids = {ids_.begin(), middle}, .new_ids = {middle, ids_.end()}};
  }

 private:
  void add(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = text.find('\n', at);
      end = end == text.npos ? text.size() : end + 1;
      keys_.push_back(make_key(text.substr(at, end - at), starts_.size()));
      starts_.push_back(at);
      at = end;
    }
  }

  bool is_new(std::uint32_t index) const { return index >= old_lines_; }

  std::string_view line_of(Key key) const {
    std::uint32_t index = index_of(key);
    std::string_view text = texts_[is_new(index) ? 1 : 0];
    bool last = index + 1 == starts_.size() || index + 1 == old_lines_;
    std::size_t end = last ? text.size() : starts_[index + 1];
    return text.substr(starts_[index], end - starts_[index]);
  }

  // Lines with equal hashes are equal, unless the hashes collide.
  void number_same_hash(std::span<Key> group) {
    auto differs = [&](Key key) { return line_of(key) != line_of(group.front()); };
    if (group.size() == 1) return;
    if (std::none_of(group.begin() + 1, group.end(), differs)) return number_equal(group);
    std::sort(group.begin(), group.end(), [&](Key a, Key b) {
      int order = line_of(a).compare(line_of(b));
      return order != 0 ? order < 0 : a < b;
    });
    for (std::size_t begin = 0, end = 0; begin < group.size(); begin = end) {
      while (end < group.size() && line_of(group[end]) == line_of(group[begin])) ++end;
      number_equal(group.subspan(begin, end - begin));
    }
  }

  // Sorted by index, so the two ends show whether both sides have the line.
  void number_equal(std::span<const Key> group) {
    if (is_new(index_of(group.front())) == is_new(index_of(group.back()))) return;
    for (Key key : group) ids_[index_of(key)] = next_id_;
    ++next_id_;
  }

  std::string_view texts_[2];
  std::size_t old_lines_ = 0;
  std::vector<std::size_t> starts_;
  std::vector<Key> keys_;
  std::vector<std::uint32_t> ids_;
  std::uint32_t next_id_ = 0;
};

}  // namespace

LineIds number_lines(std::string_view old_text, std::string_view new_text) {
  return Numbering(old_text, new_text).run();
}

}  // namespace warren
