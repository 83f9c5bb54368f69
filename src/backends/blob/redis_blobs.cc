#include "backends/blob/redis_blobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "backends/blob/blob_key.h"
#include "base/ascii.h"
#include "base/path.h"
#include "clients/url_options.h"

namespace warren {
namespace {

constexpr std::uint64_t kLargestRedisBlob = std::uint64_t{64} << 20;  // Redis serves nobody else meanwhile
constexpr std::size_t kLongestRedisPrefix = 200;
constexpr std::string_view kNoVersion = "0";
constexpr std::chrono::milliseconds kForEver = std::chrono::hours(24 * 365 * 100);  // longer times to live never end

// Every key that a script changes is in KEYS: while a cluster moves the slot, Redis then refuses the whole script.

// KEYS: the index, then the value and the info of each change. ARGV, six for each change: "put" or "remove", key,
// content, new version, milliseconds to live or "", and the condition: "" or "absent" or "=VERSION". Checks all
// conditions first, each as if the changes before had happened. Returns {0, microseconds since 1970, 1 if the last
// change had a value before}, or {number of the change, "exists" or "conflict"}.
constexpr const char* kChangeScript = R"lua(
local count, now = (#ARGV - 1) / 6, ARGV[#ARGV]
local after, is_entered = {}, false
for i = 1, count do
  local at = i * 6 - 5
  local key, condition = ARGV[at + 1], ARGV[at + 5]
  if condition ~= '' then
    local version = after[key]
    if version == nil and condition == 'absent' then
      version = redis.call('EXISTS', KEYS[i * 2]) == 1
    elseif version == nil then
      local info = redis.call('GET', KEYS[i * 2 + 1])
      version = info and string.sub(info, 1, string.find(info, ' ', 1, true) - 1)
      is_entered = info and count == 1
      if not info and redis.call('EXISTS', KEYS[i * 2]) == 1 then version = '0' end
    end
    if condition == 'absent' then
      if version then return {i, 'exists'} end
    elseif not version or condition ~= '=' .. version then
      return {i, 'conflict'}
    end
  end
  after[key] = ARGV[at] == 'put' and ARGV[at + 3]
end
local expires, removed = '0', 0
for i = 1, count do
  local at = i * 6 - 5
  local key, ttl, value, info = ARGV[at + 1], ARGV[at + 4], KEYS[i * 2], KEYS[i * 2 + 1]
  if ARGV[at] == 'put' then
    expires = '0'
    if ttl ~= '' then
      local time = redis.call('TIME')
      expires = string.format('%.0f', math.floor(time[1] * 1000 + time[2] / 1000) + tonumber(ttl))
    end
    local about = ARGV[at + 3] .. ' ' .. #ARGV[at + 2] .. ' ' .. now .. ' ' .. expires
    redis.call('MSET', value, ARGV[at + 2], info, about)
    if not is_entered then redis.call('ZADD', KEYS[1], 0, key) end
    if ttl ~= '' then
      redis.call('PEXPIREAT', value, expires)
      redis.call('PEXPIREAT', info, expires)
    end
  else
    removed = redis.call('DEL', value)
    redis.call('DEL', info)
    redis.call('ZREM', KEYS[1], key)
  end
end
return {0, expires, removed}
)lua";

// KEYS: the value and its info. ARGV: the first and the last byte, or "" for none. Returns nil, or {bytes, info or "",
// size}.
constexpr const char* kReadScript = R"lua(
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local bytes = ''
if ARGV[1] ~= '' then bytes = redis.call('GETRANGE', KEYS[1], ARGV[1], ARGV[2]) end
return {bytes, redis.call('GET', KEYS[2]) or '', redis.call('STRLEN', KEYS[1])}
)lua";

// Then the prefix, where to begin ("[KEY" or "(KEY"), how many, and "1" to fold folders. Returns {1 if there may be
// more, the last key or folder looked at, key, info, folder, "", …}. Looks at no more than 5000 keys. Keys are compared
// by Redis alone: Lua would do it by the server's locale.
constexpr const char* kListScript = R"lua(
local values, infos, prefix, from = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local limit, by_folder = tonumber(ARGV[5]), ARGV[6] == '1'
local found, dead, place = {}, {}, ''
local count, looked, more = 0, 0, 1
while more == 1 and count < limit and looked < 5000 do
  local step = math.min(limit - count, 250)
  local keys = redis.call('ZRANGEBYLEX', KEYS[1], from, '+', 'LIMIT', 0, step)
  if #keys < step then more = 0 end
  for _, key in ipairs(keys) do
    looked = looked + 1
    if string.sub(key, 1, #prefix) ~= prefix then
      more = 0
      break
    end
    place, from = key, '(' .. key
    if redis.call('EXISTS', values .. key) == 0 then
      dead[#dead + 1] = key
    else
      count = count + 1
      local slash = by_folder and string.find(key, '/', #prefix + 1, true)
      if slash then
        place, from, more = string.sub(key, 1, slash), '[' .. string.sub(key, 1, slash - 1) .. '0', 1
        found[#found + 1] = place
        found[#found + 1] = ''
        break
      end
      found[#found + 1] = key
      found[#found + 1] = redis.call('GET', infos .. key) or ''
    end
  end
end
for _, key in ipairs(dead) do
  redis.call('ZREM', KEYS[1], key)
  redis.call('DEL', infos .. key)
end
return {more, place, unpack(found)}
)lua";

constexpr std::size_t kRedisPage = 1000;  // Lua returns no more than some thousand elements at once

Timestamp timestamp_of_us(std::int64_t us) {
  return {.seconds = us / 1'000'000, .nanoseconds = static_cast<std::int32_t>(us % 1'000'000 * 1000)};
}

// What P;v:KEY says.
BlobInfo parse_redis_info(std::string_view key, std::string_view text, std::uint64_t size) {
  BlobInfo info{.key = std::string(key), .size = size, .version = std::string(kNoVersion)};
  std::string_view fields[4];
  for (std::string_view& field : fields) {
    std::size_t space = text.find(' ');
    field = text.substr(0, space);
    text = space == text.npos ? std::string_view() : text.substr(space + 1);
  }
  if (fields[0].empty()) return info;
  info.version = fields[0];
  info.modified = timestamp_of_us(parse_number<std::int64_t>(fields[2]).value_or(0));
  std::int64_t expires_ms = parse_number<std::int64_t>(fields[3]).value_or(0);
  if (expires_ms > 0) info.expires = timestamp_of_us(expires_ms * 1000);
  return info;
}

std::uint64_t size_in_redis_info(std::string_view text) {
  std::size_t space = text.find(' ');
  if (space == text.npos) return 0;
  text.remove_prefix(space + 1);
  return parse_number<std::uint64_t>(text.substr(0, text.find(' '))).value_or(0);
}

Result<std::string> parse_redis_prefix(const Url& url) {
  const std::string* given = url.find("prefix");
  std::string prefix = given != nullptr ? *given : "warren";
  auto is_allowed = [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("-_./@").find(c) != std::string_view::npos;
  };
  if (prefix.empty() || prefix.size() > kLongestRedisPrefix || !std::all_of(prefix.begin(), prefix.end(), is_allowed)) {
    return Error(Code::kInvalid, fmt::format("the prefix {} is not valid", quote(prefix)),
                 fmt::format("1 to {} letters, digits and -_./@", kLongestRedisPrefix));
  }
  return url.scheme.ends_with("+cluster") ? "{" + prefix + "}" : prefix;
}

std::string random_redis_word() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace

struct RedisBlobs::Change {
  std::string_view key;
  std::optional<std::string_view> content;  // unset: remove
  std::string version;
  std::string ttl_ms;
  std::string condition;
};

RedisBlobs::RedisBlobs(redis::ClientOptions options, std::string name, const std::string& prefix, Clock& clock)
    : name_(std::move(name)),
      values_(prefix + ":"),
      infos_(prefix + ";v:"),
      index_(prefix + ";index"),
      process_(random_redis_word()),
      clock_(clock),
      client_(std::move(options)),
      change_script_(kChangeScript),
      read_script_(kReadScript),
      list_script_(kListScript) {}

Result<std::unique_ptr<RedisBlobs>> RedisBlobs::open(const Url& url, std::chrono::milliseconds timeout, Clock& clock) {
  constexpr std::string_view kOptions[] = {"prefix", "timeout", "connections", "ca", "sentinel_password"};
  WARREN_TRY(check_options(url, kOptions));
  redis::ClientOptions options = WARREN_TRY(redis::parse_client_url(url, timeout));
  std::string prefix = WARREN_TRY(parse_redis_prefix(url));
  std::string name = without_secrets(url) + "?prefix=" + prefix;
  return std::unique_ptr<RedisBlobs>(new RedisBlobs(std::move(options), std::move(name), prefix, clock));
}

BlobAbilities RedisBlobs::abilities() const {
  return {.conditional_puts = true,
          .conditional_removals = true,
          .ttl = true,
          .whole_batches = true,
          .lasts = true,
          .largest = kLargestRedisBlob};
}

std::string RedisBlobs::new_version() { return fmt::format("{}-{:x}", process_, ++version_count_); }

Result<std::optional<Blob>> RedisBlobs::get(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  std::string value = values_ + std::string(key);
  std::string info = infos_ + std::string(key);
  std::string_view words[] = {"MGET", value, info};
  redis::Reply reply = WARREN_TRY(client_.call(words));
  if (reply.view()[0].is_nil()) return std::optional<Blob>();
  std::string_view content = reply.view()[0].text();
  return std::optional(
      Blob{.info = parse_redis_info(key, reply.view()[1].text(), content.size()), .content = std::string(content)});
}

Result<std::optional<Blob>> RedisBlobs::read(std::string_view key, std::uint64_t offset, std::uint64_t length) {
  WARREN_TRY(check_blob_key(key));
  std::string first;
  std::string last;
  if (length > 0 && offset <= kLargestRedisBlob * 8) {  // Redis's own limit of a value
    first = std::to_string(offset);
    last = std::to_string(offset + std::min(length, kLargestRedisBlob * 8) - 1);
  }
  std::string value = values_ + std::string(key);
  std::string info = infos_ + std::string(key);
  std::string_view keys[] = {value, info};
  std::string_view arguments[] = {first, last};
  redis::Reply reply = WARREN_TRY(client_.run(read_script_, keys, arguments));
  if (reply.view().is_nil()) return std::optional<Blob>();
  auto size = static_cast<std::uint64_t>(reply.view()[2].integer());
  return std::optional(Blob{.info = parse_redis_info(key, reply.view()[1].text(), size),
                            .content = std::string(reply.view()[0].text())});
}

Result<std::optional<Blob>> RedisBlobs::get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) {
  return read(key, offset, length);
}

Result<std::optional<BlobInfo>> RedisBlobs::find(std::string_view key) {
  std::optional<Blob> blob = WARREN_TRY(read(key, 0, 0));
  if (!blob) return std::optional<BlobInfo>();
  return std::optional(std::move(blob->info));
}

Result<redis::Reply> RedisBlobs::change(std::span<const Change> changes, std::int64_t now_us) {
  std::vector<std::string> names;
  std::vector<std::string_view> arguments;
  names.reserve(changes.size() * 2);
  arguments.reserve(changes.size() * 6 + 1);
  std::uint64_t size = 0;
  for (const Change& one : changes) {
    WARREN_TRY(check_blob_key(one.key));
    names.push_back(values_ + std::string(one.key));
    names.push_back(infos_ + std::string(one.key));
    std::string_view content = one.content.value_or("");
    size += content.size();
    arguments.insert(arguments.end(),
                     {one.content ? "put" : "remove", one.key, content, one.version, one.ttl_ms, one.condition});
  }
  if (size > kLargestRedisBlob) {
    return Error(Code::kTooLarge,
                 fmt::format("{} bytes are too many for Redis; at most {} are allowed", size, kLargestRedisBlob));
  }
  std::string now = std::to_string(now_us);
  arguments.push_back(now);
  std::vector<std::string_view> keys{index_};
  keys.insert(keys.end(), names.begin(), names.end());
  redis::Reply reply = WARREN_TRY(client_.run(change_script_, keys, arguments));
  std::int64_t failed = reply.view()[0].integer();
  if (failed == 0) return reply;
  std::string key = failed <= static_cast<std::int64_t>(changes.size())
                        ? quote(changes[static_cast<std::size_t>(failed) - 1].key)
                        : std::string();
  if (reply.view()[1].text() == "exists") return Error(Code::kExists, fmt::format("{} exists already", key));
  return Error(Code::kConflict, fmt::format("{} was changed by someone else", key));
}

std::string RedisBlobs::condition_of(const PutOptions& options) {
  if (options.if_absent) return "absent";
  return options.if_match ? "=" + *options.if_match : "";
}

Result<RedisBlobs::Change> RedisBlobs::put_change(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_blob_put(abilities(), key, content.size(), options));
  Change one{.key = key, .content = as_text(content), .version = new_version()};
  one.condition = condition_of(options);
  if (options.ttl && *options.ttl < kForEver) one.ttl_ms = std::to_string(options.ttl->count());
  return one;
}

// Without a condition and a time to live no script is needed, which would take Redis several times as long.
Status RedisBlobs::put_plainly(const Change& one, std::int64_t now_us) {
  std::string value = values_ + std::string(one.key);
  std::string info = infos_ + std::string(one.key);
  std::string about = fmt::format("{} {} {} 0", one.version, one.content->size(), now_us);
  const std::string_view set[] = {"MSET", value, *one.content, info, about};
  const std::string_view enter[] = {"ZADD", index_, "0", one.key};
  const redis::Words commands[] = {set, enter};
  WARREN_TRY(client_.call_together(commands));
  return Ok{};
}

Result<BlobInfo> RedisBlobs::put(std::string_view key, Bytes content, const PutOptions& options) {
  Change one = WARREN_TRY(put_change(key, content, options));
  std::int64_t now_us = clock_.now_us();
  BlobInfo info{.key = std::string(key), .size = content.size(), .version = one.version};
  info.modified = timestamp_of_us(now_us);
  if (one.ttl_ms.empty() && one.condition.empty()) {
    WARREN_TRY(put_plainly(one, now_us));
    return info;
  }
  redis::Reply reply = WARREN_TRY(change({&one, 1}, now_us));
  if (std::int64_t expires_ms = reply.view()[1].integer(); expires_ms > 0) {
    info.expires = timestamp_of_us(expires_ms * 1000);
  }
  return info;
}

Result<bool> RedisBlobs::remove(std::string_view key) {
  Change one{.key = key};
  redis::Reply reply = WARREN_TRY(change({&one, 1}, clock_.now_us()));
  return reply.view()[2].integer() == 1;
}

Status RedisBlobs::apply(std::span<const BlobChange> changes) {
  std::vector<Change> all;
  for (const BlobChange& one : changes) {
    if (one.content) {
      Change put = WARREN_TRY(put_change(one.key, *one.content, one.options));
      all.push_back(std::move(put));
    } else {
      all.push_back({.key = one.key, .condition = condition_of(one.options)});
    }
  }
  if (!all.empty()) WARREN_TRY(change(all, clock_.now_us()));
  return Ok{};
}

Result<BlobPage> RedisBlobs::list(const ListOptions& options) {
  std::string from = "(" + options.after;
  if (options.after < options.prefix) from = "[" + options.prefix;
  else if (options.after.empty()) from = "-";
  else if (options.by_folder && options.after.ends_with('/') && options.after.size() > options.prefix.size()) {
    from = "[" + options.after.substr(0, options.after.size() - 1) + "0";  // '0' follows '/': after the whole folder
  }
  std::string limit = std::to_string(std::clamp<std::size_t>(options.limit, 1, kRedisPage));
  std::string_view keys[] = {index_};
  std::string_view arguments[] = {values_, infos_, options.prefix, from, limit, options.by_folder ? "1" : "0"};
  redis::Reply reply = WARREN_TRY(client_.run(list_script_, keys, arguments));
  redis::ReplyView view = reply.view();
  BlobPage page;
  if (view[0].integer() == 1) page.next = view[1].text();
  for (std::size_t i = 2; i + 1 < view.size(); i += 2) {
    std::string_view key = view[i].text();
    std::string_view info = view[i + 1].text();
    if (key.ends_with('/')) page.folders.emplace_back(key);
    else page.blobs.push_back(parse_redis_info(key, info, size_in_redis_info(info)));
  }
  return page;
}

}  // namespace warren
