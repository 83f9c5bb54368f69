#include "drives/known_drives.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "base/path.h"
#include "crypto/digest.h"

namespace warren {
namespace {

using WebPlace = KnownDrive::Place;

constexpr std::size_t kAddressBytes = 8192;

std::string joined_from(const std::vector<std::string>& segments, std::size_t first) {
  std::string path;
  for (std::size_t i = first; i < segments.size(); ++i) (path += '/') += segments[i];
  return path;
}

// A name of a file for part of an address: one that is too long keeps its beginning and gets a hash of all of it.
std::string as_file_name(std::string_view part) {
  constexpr std::size_t kKept = 200;
  if (part.size() <= limits::kNameBytes) return std::string(part);
  return fmt::format("{}~{}", part.substr(0, kKept), sha256_hex(as_bytes(part)).substr(0, 32));
}

// github.com

// The files of the usual branches have no branch in their paths.
std::string repository_path(const std::string& owner, const std::string& repository, const std::string& branch) {
  bool is_usual = branch.empty() || branch == "main" || branch == "master" || branch == "HEAD";
  return fmt::format("/{}/{}{}{}", owner, repository, is_usual ? "" : "@", is_usual ? "" : branch);
}

// OWNER/REPOSITORY/BRANCH/PATH, where BRANCH, which begins at `branch`, may have its long form refs/heads/BRANCH.
std::optional<WebPlace> github_file(const std::vector<std::string>& at, std::size_t branch) {
  if (at.size() < branch + 2) return std::nullopt;
  std::string fetch_url =
      fmt::format("https://raw.githubusercontent.com/{}/{}{}", at[0], at[1], joined_from(at, branch));
  bool is_long =
      at.size() >= branch + 4 && at[branch] == "refs" && (at[branch + 1] == "heads" || at[branch + 1] == "tags");
  if (is_long) branch += 2;
  return WebPlace{.path = repository_path(at[0], at[1], at[branch]) + joined_from(at, branch + 1),
                  .fetch_url = std::move(fetch_url)};
}

std::optional<WebPlace> recognise_github(const WebAddress& address) {
  const std::vector<std::string>& at = address.segments;
  if (address.host == "raw.githubusercontent.com") return github_file(at, 2);
  if (address.host != "github.com" && address.host != "www.github.com") return std::nullopt;
  if (at.size() < 4) return std::nullopt;
  const std::string& kind = at[2];
  if (kind == "blob" || kind == "raw") return github_file(at, 3);
  if (kind == "tree") {
    return WebPlace{.path = repository_path(at[0], at[1], at[3]) + joined_from(at, 4),
                    .fetch_url = {},
                    .problem = "the address of a folder; clone the repository and add the folder from there"};
  }
  bool is_number = parse_number<std::uint64_t>(at[3]).has_value();
  if ((kind != "issues" && kind != "pull") || !is_number) return std::nullopt;
  return WebPlace{.path = fmt::format("/{}/{}/{}/{}", at[0], at[1], kind, at[3]),
                  .fetch_url = fmt::format("https://api.github.com/repos/{}/{}/{}/{}", at[0], at[1],
                                           kind == "pull" ? "pulls" : kind, at[3])};
}

// docs.google.com

std::optional<WebPlace> recognise_google_docs(const WebAddress& address) {
  const std::vector<std::string>& at = address.segments;
  if (address.host != "docs.google.com" || at.size() < 3 || at[1] != "d") return std::nullopt;
  bool is_id = at[2].size() >= 10 && at[2] != "e" &&
               std::ranges::all_of(at[2], [](char c) { return is_digit(c) || is_letter(c) || c == '-' || c == '_'; });
  if (!is_id) return std::nullopt;
  std::string_view format = at[0] == "document"       ? "export?format=md"
                            : at[0] == "spreadsheets" ? "export?format=csv"
                            : at[0] == "presentation" ? "export/txt"
                                                      : "";
  if (format.empty()) return std::nullopt;
  return WebPlace{.path = "/" + at[2],
                  .fetch_url = fmt::format("https://docs.google.com/{}/d/{}/{}", at[0], at[2], format)};
}

// Everything else

// The whole address is the path. One that ends in a slash is a folder, and its page the file index.html in it.
std::optional<WebPlace> recognise_any(const WebAddress& address) {
  std::string path = fmt::format("/{}:/{}", address.scheme, as_file_name(address.host));
  std::vector<std::string> names = address.segments;
  if (address.ends_with_slash) names.emplace_back("index.html");
  if (!address.query.empty()) {
    std::string query = address.query;  // a slash in it does not make a folder
    for (std::size_t slash = query.find('/'); slash != query.npos; slash = query.find('/', slash)) {
      query.replace(slash, 1, "%2F");
    }
    (names.back() += '?') += query;
  }
  for (const std::string& name : names) (path += '/') += as_file_name(name);
  return WebPlace{.path = path, .fetch_url = address.to_string()};
}

constexpr std::array<KnownDrive, 6> kKnownDrives{{
    {.name = "disk", .shape = "/ABSOLUTE/PATH", .description = "files of the machine", .recognise = nullptr},
    {.name = "agent", .shape = "/ANY/PATH", .description = "what the agent writes itself", .recognise = nullptr},
    {.name = "google-docs",
     .shape = "/ID",
     .description = "documents, sheets and slides on docs.google.com",
     .recognise = recognise_google_docs},
    {.name = "github",
     .shape = "/OWNER/REPOSITORY[@BRANCH]/PATH",
     .description = "files, issues and pull requests on github.com",
     .recognise = recognise_github},
    {.name = "session",
     .shape = "/NAME/PATH",
     .description = "files that sessions of `warren run` show",
     .recognise = nullptr},
    // Takes every address, so it comes last.
    {.name = "url", .shape = "/URL", .description = "pages of the web", .recognise = recognise_any},
}};

// Resolves '.' and '..' as browsers do.
void add_segment(WebAddress& address, std::string_view segment) {
  if (segment.empty() || segment == "." || to_lower(segment) == "%2e") return;
  std::string lower = to_lower(segment);
  bool is_up = lower == ".." || lower == "%2e%2e" || lower == ".%2e" || lower == "%2e.";
  if (!is_up) address.segments.emplace_back(segment);
  else if (!address.segments.empty()) address.segments.pop_back();
}

Error not_an_address(std::string_view text, std::string_view why) {
  return Error(Code::kInvalid,
               fmt::format("{} is not a web address that can be added: {}", quote(text.substr(0, 200)), why),
               "give it as https://HOST/PATH");
}

}  // namespace

std::string WebAddress::to_string() const {
  std::string text = fmt::format("{}://{}{}", scheme, host, joined_from(segments, 0));
  if (ends_with_slash) text += '/';
  if (!query.empty()) (text += '?') += query;
  return text;
}

bool looks_like_web_address(std::string_view text) {
  std::string start = to_lower(text.substr(0, 8));
  return start.starts_with("http://") || start.starts_with("https://");
}

Result<WebAddress> parse_web_address(std::string_view text) {
  if (!looks_like_web_address(text)) return not_an_address(text, "it does not begin with http:// or https://");
  if (text.size() > kAddressBytes) return not_an_address(text, fmt::format("it has more than {} bytes", kAddressBytes));
  auto is_bad = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f' || c == '\\'; };
  if (std::ranges::any_of(text, is_bad)) {
    return not_an_address(text, "it contains a space, a backslash or a control character");
  }
  WebAddress address;
  std::size_t colon = text.find(':');
  address.scheme = to_lower(text.substr(0, colon));
  std::string_view rest = text.substr(colon + 3);
  rest = rest.substr(0, rest.find('#'));
  std::size_t question = rest.find('?');
  if (question != rest.npos) address.query = rest.substr(question + 1);
  rest = rest.substr(0, question);
  std::size_t slash = rest.find('/');
  address.host = to_lower(rest.substr(0, slash));
  if (address.host.empty()) return not_an_address(text, "it has no host");
  if (address.host.find('@') != std::string::npos) return not_an_address("…", "it contains a user name or password");
  rest = slash == rest.npos ? std::string_view() : rest.substr(slash);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    std::size_t end = rest.find('/');
    add_segment(address, rest.substr(0, end));
    rest = end == rest.npos ? std::string_view() : rest.substr(end);
    if (rest == "/") address.ends_with_slash = true;
  }
  if (address.segments.empty()) address.ends_with_slash = true;
  return address;
}

std::span<const KnownDrive> known_drives() { return kKnownDrives; }

const KnownDrive* find_known_drive(std::string_view name) {
  auto found = std::ranges::find(kKnownDrives, name, &KnownDrive::name);
  return found == kKnownDrives.end() ? nullptr : found;
}

Result<WebItem> find_web_item(std::string_view text) {
  WebAddress address = WARREN_TRY(parse_web_address(text));
  for (const KnownDrive& drive : kKnownDrives) {
    if (drive.recognise == nullptr) continue;
    std::optional<WebPlace> place = drive.recognise(address);
    if (!place) continue;
    Ref ref = WARREN_TRY(make_ref(drive.name, place->path));
    return WebItem{.ref = std::move(ref),
                   .source = address.to_string(),
                   .fetch_url = std::move(place->fetch_url),
                   .problem = std::move(place->problem)};
  }
  return Error(Code::kInternal, fmt::format("no drive takes {}", quote(text)));
}

}  // namespace warren
