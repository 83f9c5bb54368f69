// S3Blobs: listings, removals, batches, and what the server can do.
#include <algorithm>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "backends/blob/s3_blobs.h"
#include "base/ascii.h"
#include "base/path.h"
#include "clients/url.h"
#include "clients/xml.h"
#include "crypto/digest.h"

namespace warren {
namespace {

constexpr std::string_view kMarks = ".warren-s3-ttl/";
constexpr std::string_view kOwnKeys = ".warren-s3";
// The first key that could follow ours: no blob is called so.
constexpr std::string_view kBehindOwnKeys = ".warren-s3\xF4\x8F\xBF\xBF";
constexpr std::size_t kServerPage = 1000;
constexpr std::size_t kLookups = 8;  // at the same time
constexpr std::size_t kListBytes = std::size_t{32} << 20;
constexpr std::chrono::seconds kTrialPause{10};
// A mark without its object is one that is about to be used, unless it is older than any put takes.
constexpr std::int64_t kOldMark = 3600;

// With encoding-type=url a space is a plus sign.
std::optional<std::string> decode_listed(std::string_view text, bool is_encoded) {
  if (!is_encoded) return std::string(text);
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  Result<std::string> decoded = decode_percent(spaced);
  if (!decoded.ok()) return std::nullopt;
  return std::move(decoded).take_value();
}

}  // namespace

struct S3Blobs::Entry {
  BlobInfo info;  // of a folder, only the key is set: "a/b/"
  bool is_folder = false;
};

struct S3Blobs::RawPage {
  std::vector<Entry> entries;  // in order
  std::string token;           // of the next page; empty: this is the last
};

// `below` goes before every key and is taken off again.
Result<S3Blobs::RawPage> S3Blobs::list_raw(const std::string& below, const ListOptions& options,
                                           const std::string& token, Deadline deadline) {
  std::string root = api_.settings().prefix + below;
  S3Request request{.method = "GET", .key = {}, .answer_bytes_max = kListBytes};
  request.query = {{"list-type", "2"},
                   {"encoding-type", "url"},
                   {"max-keys", std::to_string(std::clamp<std::size_t>(options.limit, 1, kServerPage))},
                   {"prefix", root + options.prefix}};
  if (options.by_folder) request.query.emplace_back("delimiter", "/");
  if (!token.empty()) request.query.emplace_back("continuation-token", token);
  else if (!options.after.empty()) request.query.emplace_back("start-after", root + options.after);
  S3Answer answer = WARREN_TRY(api_.send(request, deadline));
  if (!answer.is_success()) return api_.failure(answer);
  bucket_seen_ = true;
  XmlElement list = WARREN_TRY(parse_xml(answer.http.body).within("listing by S3"));
  if (list.name != "ListBucketResult")
    return Error(Code::kCorrupt, "the server answered with something else than a listing");

  bool is_encoded = list.text_of("EncodingType") == "url";
  RawPage page;
  if (list.text_of("IsTruncated") == "true") {
    page.token = list.text_of("NextContinuationToken");
    if (page.token.empty() || page.token == token) {
      return Error(Code::kCorrupt, "the server's listing is not whole and does not say how it continues");
    }
  }
  for (const XmlElement& child : list.children) {
    bool is_folder = child.name == "CommonPrefixes";
    if (!is_folder && child.name != "Contents") continue;
    std::optional<std::string> key = decode_listed(child.text_of(is_folder ? "Prefix" : "Key"), is_encoded);
    if (!key || !key->starts_with(root)) continue;
    Entry entry{.info = {.key = key->substr(root.size())}, .is_folder = is_folder};
    entry.info.size = parse_number<std::uint64_t>(child.text_of("Size")).value_or(0);
    entry.info.version = unquoted_etag(child.text_of("ETag"));
    entry.info.modified = parse_iso_date(child.text_of("LastModified")).value_or(Timestamp{});
    page.entries.push_back(std::move(entry));
  }
  std::sort(page.entries.begin(), page.entries.end(),
            [](const Entry& a, const Entry& b) { return a.info.key < b.info.key; });
  return page;
}

Result<S3Blobs::RawPage> S3Blobs::list_blobs(const ListOptions& options, Deadline deadline) {
  ListOptions rest = options;
  std::string token;
  while (true) {
    RawPage page = WARREN_TRY(list_raw("", rest, token, deadline));
    token = page.token;
    bool ends_with_own = !page.entries.empty() && page.entries.back().info.key.starts_with(kOwnKeys);
    std::erase_if(page.entries, [&](const Entry& entry) {
      const std::string& key = entry.info.key;
      // Other programs have other keys: "dir/" as a sign of a directory, "a//b". And a server may name the folder
      // again after which it was to begin.
      std::string_view name = entry.is_folder ? std::string_view(key).substr(0, key.size() - 1) : key;
      return key <= options.after || key.starts_with(kOwnKeys) || !check_blob_key(name).ok();
    });
    if (!page.entries.empty() || token.empty()) return page;
    if (ends_with_own && !options.by_folder) {  // past all marks in one step
      rest.after = kBehindOwnKeys;
      token.clear();
    }
  }
}

Result<std::map<std::string, Timestamp>> S3Blobs::list_marks(ListOptions options, const std::string& last,
                                                             Deadline deadline) {
  std::map<std::string, Timestamp> marks;
  options.limit = kServerPage;
  std::string token;
  while (true) {
    RawPage page = WARREN_TRY(list_raw(std::string(kMarks), options, token, deadline));
    for (const Entry& entry : page.entries) marks.emplace(entry.info.key, entry.info.modified);
    token = page.token;
    bool is_enough = !page.entries.empty() && page.entries.back().info.key > last;
    if (token.empty() || is_enough) return marks;
  }
}

// Replaces what the listing says by what the objects say, with several requests at once. One that is gone has no
// version.
Status S3Blobs::look_up(std::vector<Entry*>& entries, Deadline deadline) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  Status status = Ok{};
  auto work = [&] {
    for (std::size_t i = next++; i < entries.size(); i = next++) {
      Result<std::optional<BlobInfo>> info = find_raw(entries[i]->info.key, deadline);
      if (info.ok()) {
        if (*info) entries[i]->info = **info;
        else entries[i]->info.version.clear();
        continue;
      }
      std::lock_guard lock(mutex);
      status = std::move(info).take_error();
      next = entries.size();
    }
  };
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < std::min(kLookups, entries.size()); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return status;
}

Result<bool> S3Blobs::has_blob_in(const std::string& folder) {
  ListOptions options{.prefix = folder};
  while (true) {
    BlobPage page = WARREN_TRY(list(options));
    if (!page.blobs.empty()) return true;
    if (page.next.empty()) return false;
    options.after = page.next;
  }
}

Status S3Blobs::drop_expired(const ListOptions& options, std::vector<Entry>& entries, Deadline deadline) {
  if (!api_.settings().ttl || entries.empty()) return Ok{};
  std::map<std::string, Timestamp> marks = WARREN_TRY(list_marks(options, entries.back().info.key, deadline));
  if (marks.empty()) return Ok{};
  std::vector<Entry*> marked;
  for (Entry& entry : entries) {
    auto mark = marks.find(entry.info.key);
    if (mark == marks.end()) continue;
    if (!entry.is_folder) {
      marked.push_back(&entry);
      continue;
    }
    bool has_blob = WARREN_TRY(has_blob_in(entry.info.key));
    if (!has_blob) entry.info.key.clear();
  }
  WARREN_TRY(look_up(marked, deadline));
  std::vector<std::string> useless;
  for (Entry* entry : marked) {
    std::string key = entry->info.key;
    bool is_gone = entry->info.version.empty();
    bool is_over = !is_gone && is_expired(entry->info);
    if (is_over) collect(entry->info, deadline);
    if (is_gone || is_over) entry->info.key.clear();
    bool is_old = marks[key].seconds < api_.now().seconds - kOldMark;
    if (is_old && (is_gone || !entry->info.expires)) useless.push_back(std::string(kMarks) + key);
  }
  if (!useless.empty()) remove_keys(useless, deadline).ignore("the next listing tries again");
  std::erase_if(entries, [](const Entry& entry) { return entry.info.key.empty(); });
  return Ok{};
}

Result<BlobPage> S3Blobs::list(const ListOptions& options) {
  if (options.prefix.find('\0') != std::string::npos || options.after.find('\0') != std::string::npos) {
    return Error(Code::kInvalid, "a prefix must not contain a NUL byte");
  }
  Deadline deadline = api_.deadline_for(0);
  RawPage raw = WARREN_TRY(list_blobs(options, deadline));
  BlobPage page;
  if (!raw.token.empty()) page.next = raw.entries.back().info.key;
  WARREN_TRY(drop_expired(options, raw.entries, deadline));
  for (Entry& entry : raw.entries) {
    if (entry.is_folder) page.folders.push_back(std::move(entry.info.key));
    else page.blobs.push_back(std::move(entry.info));
  }
  return page;
}

// Removals and batches.

Status S3Blobs::put_mark(std::string_view key, Deadline deadline) {
  std::string mark = std::string(kMarks) + std::string(key);
  if (api_.settings().prefix.size() + mark.size() > kLongestBlobKey) {
    return Error(Code::kNameTooLong, fmt::format("the key {} is too long for a time to live", quote(key)));
  }
  S3Answer answer = WARREN_TRY(api_.send({.method = "PUT", .key = mark}, deadline));
  if (!answer.is_success()) return api_.failure(answer);
  return Ok{};
}

Status S3Blobs::remove_key(const std::string& key, Deadline deadline) {
  S3Answer answer = WARREN_TRY(api_.send({.method = "DELETE", .key = key}, deadline));
  bool is_gone = answer.is_success() || (answer.status() == 404 && answer.code != "NoSuchBucket");
  if (!is_gone) return api_.failure(answer);
  return Ok{};
}

Result<bool> S3Blobs::remove(std::string_view key) {
  WARREN_TRY(check_key(key));
  Deadline deadline = api_.deadline_for(0);
  std::optional<BlobInfo> info = WARREN_TRY(find_raw(key, deadline));
  if (!info) return false;
  bool was_there = !is_expired(*info);
  WARREN_TRY(remove_key(info->key, deadline));
  return was_there;
}

Status S3Blobs::remove_keys(std::span<const std::string> keys, Deadline deadline) {
  std::string list = "<Delete><Quiet>true</Quiet>";
  for (const std::string& key : keys) {
    std::string escaped = WARREN_TRY(escape_xml(api_.settings().prefix + key));
    list += fmt::format("<Object><Key>{}</Key></Object>", escaped);
  }
  list += "</Delete>";
  HttpHeaders headers = {{"Content-Type", "application/xml"}, {"Content-MD5", md5_base64(as_bytes(list))}};
  S3Answer answer = WARREN_TRY(api_.send(
      {.method = "POST", .key = {}, .query = {{"delete", ""}}, .headers = std::move(headers), .body = as_bytes(list)},
      deadline));
  if (answer.status() == 501 || answer.status() == 405) {  // a server without batches
    for (const std::string& key : keys) WARREN_TRY(remove_key(key, deadline));
    return Ok{};
  }
  if (!answer.is_success()) return api_.failure(answer);
  XmlElement result = WARREN_TRY(parse_xml(answer.http.body).within("answer of S3"));
  const XmlElement* error = result.find("Error");
  if (error == nullptr || error->text_of("Code") == "NoSuchKey") return Ok{};
  S3Answer failed{.code = std::string(error->text_of("Code")), .message = std::string(error->text_of("Message"))};
  failed.http.status = failed.code == "AccessDenied" ? 403 : 500;
  return api_.failure(failed);
}

Status S3Blobs::apply(std::span<const BlobChange> changes) {
  std::size_t at = 0;
  while (at < changes.size()) {
    const BlobChange& change = changes[at];
    if (change.content) {
      WARREN_TRY(put(change.key, *change.content, change.options));
      ++at;
      continue;
    }
    std::vector<std::string> keys;
    while (at < changes.size() && !changes[at].content && keys.size() < kServerPage) {
      WARREN_TRY(check_key(changes[at].key));
      WARREN_TRY(check_blob_removal({}, changes[at]));
      keys.push_back(changes[at++].key);
    }
    Deadline deadline = api_.deadline_for(0);
    if (keys.size() == 1) WARREN_TRY(remove_key(keys.front(), deadline));
    else WARREN_TRY(remove_keys(keys, deadline));
  }
  return Ok{};
}

// What the server can do.

bool S3Blobs::supports_conditions() const {
  {
    std::lock_guard lock(conditions_mutex_);
    if (conditions_) return *conditions_;
    // A server that does not answer says so with the put.
    if (std::chrono::steady_clock::now() < next_trial_) return true;
  }
  std::optional<bool> found = try_conditions();
  std::lock_guard lock(conditions_mutex_);
  if (found) conditions_ = found;
  else next_trial_ = std::chrono::steady_clock::now() + kTrialPause;
  return found.value_or(true);
}

std::optional<bool> S3Blobs::try_conditions() const {
  std::string key = fmt::format("{}-probe-{}", kOwnKeys, random_digits());
  Result<S3Answer> answer =
      api_.send({.method = "PUT", .key = key, .headers = {{"If-Match", "\"00000000000000000000000000000000\""}}},
                api_.deadline_for(0));
  if (!answer.ok()) return std::nullopt;
  if (answer->is_success()) {
    api_.send({.method = "DELETE", .key = key}, api_.deadline_for(0)).ignore("an empty object that nobody sees stays");
    return false;
  }
  if (answer->status() == 501 || answer->code == "NotImplemented") return false;
  if (answer->status() == 412 || (answer->status() == 404 && answer->code != "NoSuchBucket")) return true;
  return std::nullopt;
}

}  // namespace warren
