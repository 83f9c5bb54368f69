#include "session/session_walls.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::string_view kWallsMagic = "warren-walls-1";
constexpr std::size_t kWallsBytesMax = std::size_t{16} << 20;
constexpr std::string_view kNet = "net=";
constexpr std::string_view kHide = "hide=";
constexpr std::string_view kOnlyTools = "home=tools";
constexpr std::string_view kNoDefaultAllows = "default-allows=no";

std::string walls_file(const std::string& session_dir) { return session_dir + "/walls"; }

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Fields that end with NUL: no path has one.
std::string encode_walls(const SessionWalls& walls) {
  std::string out;
  auto add = [&](std::string_view key, std::string_view value) { out.append(key).append(value).push_back('\0'); };
  add(kWallsMagic, "");
  for (const std::string& word : walls.net.value_or(std::vector<std::string>())) add(kNet, word);
  for (const std::string& path : walls.hide) add(kHide, path);
  if (walls.shows_only_tools) add(kOnlyTools, "");
  if (!walls.has_default_allows) add(kNoDefaultAllows, "");
  return out;
}

bool take_field(std::string_view field, SessionWalls& walls) {
  if (field.starts_with(kNet)) {
    if (!walls.net) walls.net.emplace();
    walls.net->emplace_back(field.substr(kNet.size()));
  } else if (field.starts_with(kHide)) {
    walls.hide.emplace_back(field.substr(kHide.size()));
  } else if (field == kOnlyTools) {
    walls.shows_only_tools = true;
  } else if (field == kNoDefaultAllows) {
    walls.has_default_allows = false;
  } else {
    return false;
  }
  return true;
}

std::optional<SessionWalls> decode_walls(std::string_view text) {
  SessionWalls walls;
  bool is_first = true;
  for (std::size_t end = text.find('\0'); end != text.npos; end = text.find('\0')) {
    std::string_view field = text.substr(0, end);
    text.remove_prefix(end + 1);
    bool is_known = is_first ? field == kWallsMagic : take_field(field, walls);
    if (!is_known) return std::nullopt;
    is_first = false;
  }
  if (is_first || !text.empty()) return std::nullopt;
  return walls;
}

// Those that do not exist are reported when the plan is made.
std::vector<std::string> canonical_paths(const std::vector<std::string>& typed) {
  std::vector<std::string> all;
  for (const std::string& path : typed) {
    Result<std::string> whole = canonical_host_path(path);
    if (whole.ok()) all.push_back(std::move(*whole));
  }
  return all;
}

// Those that both have; at least the word for no network.
std::vector<std::string> common_words(std::vector<std::string> first, const std::vector<std::string>& second) {
  std::erase_if(first, [&](const std::string& word) { return !contains(second, word); });
  return first.empty() ? std::vector<std::string>{"none"} : first;
}

// Preferences of the user may be narrower than what is kept: then both count.
Status take_network(RunOptions& options, TakenWalls& taken) {
  std::optional<std::vector<std::string>>& net = taken.walls.net;
  if (options.has_asked_for_network) {
    net = options.network.words;
    if (options.network.access == NetworkAccess::kAll) net.reset();
    return Ok{};
  }
  if (!net) return Ok{};
  bool is_restricted = options.network.access != NetworkAccess::kAll;
  std::vector<std::string> words = is_restricted ? common_words(options.network.words, *net) : *net;
  if (is_restricted && words == options.network.words) return Ok{};
  options.network = WARREN_TRY(parse_network(words).within("the session's network"));
  taken.taken.push_back(fmt::format("network {} ({})", fmt::join(words, ","),
                                    is_restricted ? "--net replaces it" : "--net all lifts it"));
  return Ok{};
}

Status take_hidden(RunOptions& options, TakenWalls& taken) {
  std::vector<std::string> asked = canonical_paths(options.hide);
  std::vector<std::string> opened = canonical_paths(options.read);
  std::vector<std::string> allowed = canonical_paths(options.allow);
  std::erase_if(taken.walls.hide, [&](const std::string& path) { return contains(opened, path); });
  std::size_t count = 0;
  for (const std::string& path : taken.walls.hide) {
    if (contains(asked, path) || contains(allowed, path)) continue;
    bool is_there = WARREN_TRY(find_host_link(path))
    .has_value();
    (is_there ? options.hide : taken.missing).push_back(path);
    if (is_there) ++count;
  }
  if (count == 1) taken.taken.push_back(fmt::format("{} hidden (--read shows it)", quote(options.hide.back())));
  if (count > 1) taken.taken.push_back(fmt::format("{} paths hidden (--read shows one)", count));
  for (std::string& path : asked) {
    if (!contains(taken.walls.hide, path)) taken.walls.hide.push_back(std::move(path));
  }
  return Ok{};
}

void take_home(RunOptions& options, TakenWalls& taken) {
  bool& only_tools = taken.walls.shows_only_tools;
  if (options.has_asked_for_view) {
    only_tools = options.home_view == HomeView::kTools;
  } else if (only_tools && options.home_view == HomeView::kAll) {  // by the user's preferences
    options.home_view = HomeView::kTools;
    taken.taken.emplace_back("only tools and settings of the home (--home all lifts it)");
  }
}

void take_default_allows(RunOptions& options, TakenWalls& taken) {
  bool& has_them = taken.walls.has_default_allows;
  if (options.has_asked_for_default_allows) has_them = true;
  else if (options.default_allows == DefaultAllows::kNone) has_them = false;
  else if (!has_them) {
    options.default_allows = DefaultAllows::kNone;
    taken.taken.emplace_back("sign-ins are not written (--default-allows lifts it)");
  }
}

}  // namespace

Result<SessionWalls> load_walls(const std::string& session_dir) {
  std::string path = walls_file(session_dir);
  Result<std::string> text = read_host_file(path, kWallsBytesMax);
  if (!text.ok() && text.error().code() == Code::kNotFound) return SessionWalls{};
  std::string bytes = WARREN_TRY(std::move(text));
  std::optional<SessionWalls> walls = decode_walls(bytes);
  if (walls) return *std::move(walls);
  return Error(Code::kCorrupt, fmt::format("{} is damaged", quote(path)),
               "it has what earlier runs of the session were not to reach; remove it, and say it again with --net and "
               "--hide");
}

Status store_walls(const std::string& session_dir, const SessionWalls& walls) {
  return replace_host_file(walls_file(session_dir), encode_walls(walls), 0600)
      .within("keep the session's restrictions");
}

std::vector<std::string> describe_walls(const SessionWalls& walls) {
  std::vector<std::string> words;
  if (walls.net) words.push_back(fmt::format("network {}", fmt::join(*walls.net, ",")));
  if (walls.hide.size() == 1) words.push_back(fmt::format("{} hidden", quote(walls.hide[0])));
  if (walls.hide.size() > 1) words.push_back(fmt::format("{} paths hidden", walls.hide.size()));
  if (walls.shows_only_tools) words.emplace_back("only tools and settings of the home");
  if (!walls.has_default_allows) words.emplace_back("sign-ins are not written");
  return words;
}

SessionWalls join_walls(const SessionWalls& first, const SessionWalls& second) {
  SessionWalls both = first;
  for (const std::string& path : second.hide) {
    if (!contains(both.hide, path)) both.hide.push_back(path);
  }
  both.shows_only_tools = first.shows_only_tools || second.shows_only_tools;
  both.has_default_allows = first.has_default_allows && second.has_default_allows;
  if (!first.net) both.net = second.net;
  if (first.net && second.net) both.net = common_words(*first.net, *second.net);
  return both;
}

Result<TakenWalls> take_walls(const SessionWalls& kept, RunOptions& options) {
  TakenWalls taken{.walls = kept, .taken = {}, .missing = {}};
  WARREN_TRY(take_network(options, taken));
  WARREN_TRY(take_hidden(options, taken));
  take_home(options, taken);
  take_default_allows(options, taken);
  return taken;
}

}  // namespace warren
