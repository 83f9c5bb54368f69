#include "changes/git/blobs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/ascii.h"
#include "changes/git/git_refs.h"

namespace warren {
namespace {

constexpr std::uint64_t kBlobGroupBytes = std::uint64_t{16} << 20;  // read at once, unless one set has more

using BlobSizes = std::unordered_map<std::string, std::uint64_t>;
using BlobContents = std::unordered_map<std::string, std::string>;

// A line of `git cat-file --batch` and the like: "<id> blob <size>". nullopt for anything else, as "<id> missing".
struct BlobLine {
  std::string id;
  std::uint64_t size = 0;
};
std::optional<BlobLine> parse_blob_line(std::string_view line) {
  constexpr std::string_view kBlob = " blob ";
  std::size_t end = line.find(kBlob);
  if (end == line.npos || !is_object_id(line.substr(0, end))) return std::nullopt;
  std::optional<std::uint64_t> size = parse_number<std::uint64_t>(line.substr(end + kBlob.size()));
  return size ? std::optional(BlobLine{std::string(line.substr(0, end)), *size}) : std::nullopt;
}

// Of those that are blobs and not too large.
Result<BlobSizes> find_blob_sizes(Git& git, const std::vector<std::vector<std::string>>& sets,
                                  std::uint64_t bytes_max) {
  std::string asked;
  for (const std::vector<std::string>& set : sets) {
    for (const std::string& id : set) asked += is_object_id(id) ? id + "\n" : "";
  }
  BlobSizes sizes;
  if (asked.empty()) return sizes;
  std::string listed = WARREN_TRY(git.ask_with({"cat-file", "--batch-check"}, asked));
  for (std::string_view rest = listed; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::optional<BlobLine> blob = parse_blob_line(line);
    if (blob && blob->size <= bytes_max) sizes.emplace(std::move(blob->id), blob->size);
  }
  return sizes;
}

Result<BlobContents> read_blobs(Git& git, const std::unordered_set<std::string>& ids) {
  BlobContents contents;
  if (ids.empty()) return contents;
  std::string asked;
  for (const std::string& id : ids) asked += id + "\n";
  std::string read = WARREN_TRY(git.ask_with({"cat-file", "--batch"}, asked));
  for (std::string_view rest = read; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::optional<BlobLine> blob = parse_blob_line(line);
    if (!blob || blob->size > rest.size()) return Error(Code::kCorrupt, "git cat-file printed something else");
    contents.emplace(std::move(blob->id), rest.substr(0, blob->size));
    rest.remove_prefix(std::min<std::size_t>(rest.size(), blob->size + 1));
  }
  return contents;
}

}  // namespace

Status visit_blobs(Git& git, const std::vector<std::vector<std::string>>& sets, std::uint64_t bytes_max,
                   const std::function<Status(std::size_t set, const BlobTexts& texts)>& visit) {
  BlobSizes sizes = WARREN_TRY(find_blob_sizes(git, sets, bytes_max));
  for (std::size_t first = 0, end = 0; first < sets.size(); first = end) {
    std::unordered_set<std::string> ids;
    for (std::uint64_t bytes = 0; end < sets.size() && bytes < kBlobGroupBytes; ++end) {
      for (const std::string& id : sets[end]) {
        auto size = sizes.find(id);
        if (size != sizes.end() && ids.insert(id).second) bytes += size->second;
      }
    }
    BlobContents contents = WARREN_TRY(read_blobs(git, ids));
    for (std::size_t i = first; i < end; ++i) {
      BlobTexts texts;
      for (const std::string& id : sets[i]) {
        auto content = contents.find(id);
        texts.push_back(content == contents.end() ? std::nullopt : std::optional<std::string_view>(content->second));
      }
      WARREN_TRY(visit(i, texts));
    }
  }
  return Ok{};
}

}  // namespace warren
