#include "backends/blob/s3_settings.h"

#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "base/ascii.h"
#include "base/path.h"
#include "base/percent.h"
#include "clients/url.h"
#include "clients/url_options.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kAwsFileBytes = std::size_t{1} << 20;
constexpr std::string_view kS3Options[] = {"endpoint", "region",      "path_style", "profile",
                                           "timeout",  "conditional", "ttl",        "part"};

// The settings of one section of an AWS file, "[name]" and "key = value" in lines.
std::map<std::string, std::string> section_of(std::string_view text, std::string_view wanted) {
  std::map<std::string, std::string> values;
  bool is_inside = false;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::string_view line = trimmed(text.substr(0, end), kWhitespace);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      is_inside = line.back() == ']' && trimmed(line.substr(1, line.size() - 2)) == wanted;
      continue;
    }
    std::size_t equals = line.find('=');
    if (!is_inside || equals == std::string_view::npos) continue;
    values[to_lower(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
  }
  return values;
}

// One of AWS's files; empty if there is none.
Result<std::string> read_aws_file(const Environment& environment, const char* variable, std::string_view name) {
  std::optional<std::string> path = environment(variable);
  if (!path) {
    std::optional<std::string> home = environment("HOME");
    if (!home) return std::string();
    path = fmt::format("{}/.aws/{}", *home, name);
  }
  Result<std::string> text = read_host_file(*path, kAwsFileBytes);
  if (!text.ok() && text.error().code() == Code::kNotFound) return std::string();
  return text;
}

struct Profile {
  AwsCredentials credentials;
  std::string region;
};

Result<Profile> read_profile(const Environment& environment, const std::string& name) {
  std::string credentials = WARREN_TRY(read_aws_file(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"));
  std::string config = WARREN_TRY(read_aws_file(environment, "AWS_CONFIG_FILE", "config"));
  std::map<std::string, std::string> values = section_of(config, name == "default" ? name : "profile " + name);
  for (const auto& [key, value] : section_of(credentials, name)) values[key] = value;
  Profile profile;
  profile.credentials.access_key = values["aws_access_key_id"];
  profile.credentials.secret_key = values["aws_secret_access_key"];
  profile.credentials.session_token = values["aws_session_token"];
  profile.region = values["region"];
  return profile;
}

bool is_complete(const AwsCredentials& credentials) {
  return !credentials.access_key.empty() && !credentials.secret_key.empty();
}

Status find_credentials(const Url& url, const S3Address& address, const Environment& environment,
                        S3Settings& settings) {
  auto value_of = [&](const char* name) { return environment(name).value_or(""); };
  const std::string* named = url.find("profile");
  std::string profile_name = named != nullptr ? *named : environment("AWS_PROFILE").value_or("default");
  Profile profile = WARREN_TRY(read_profile(environment, profile_name));
  if (settings.scope.region.empty()) settings.scope.region = profile.region;
  if (!url.user.empty()) {
    settings.credentials.access_key = url.user;
    settings.credentials.secret_key = address.secret_key ? *address.secret_key : url.password.value_or("");
    if (!is_complete(settings.credentials)) {
      return Error(Code::kInvalid, "the address has an access key, but no secret key");
    }
    return Ok{};
  }
  AwsCredentials from_environment{.access_key = value_of("AWS_ACCESS_KEY_ID"),
                                  .secret_key = value_of("AWS_SECRET_ACCESS_KEY"),
                                  .session_token = value_of("AWS_SESSION_TOKEN")};
  if (named == nullptr && is_complete(from_environment)) {
    settings.credentials = std::move(from_environment);
    return Ok{};
  }
  settings.credentials = std::move(profile.credentials);
  if (is_complete(settings.credentials)) return Ok{};
  if (named != nullptr) {
    return Error(Code::kInvalid, fmt::format("the profile {} has no access key and secret key", quote(*named)),
                 "write aws_access_key_id and aws_secret_access_key below its name in ~/.aws/credentials");
  }
  return Error(Code::kInvalid, "there are no credentials for S3",
               "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile into ~/.aws/credentials");
}

Result<std::optional<bool>> yes_no_option(const Url& url, std::string_view name) {
  const std::string* value = url.find(name);
  if (value == nullptr) return std::optional<bool>();
  if (*value == "yes" || *value == "1" || *value == "true") return std::optional<bool>(true);
  if (*value == "no" || *value == "0" || *value == "false") return std::optional<bool>(false);
  return Error(Code::kInvalid, fmt::format("the URL's option {}={} is neither yes nor no", name, quote(*value)));
}

Status set_endpoint(const Url& url, const Environment& environment, S3Settings& settings) {
  std::optional<bool> path_style = WARREN_TRY(yes_no_option(url, "path_style"));
  std::optional<std::string> given = environment("AWS_ENDPOINT_URL_S3");
  if (!given) given = environment("AWS_ENDPOINT_URL");
  if (const std::string* option = url.find("endpoint")) given = *option;
  if (!given) {
    settings.endpoint = fmt::format("https://s3.{}.amazonaws.com", settings.scope.region);
    // Amazon's certificate does not cover names with further dots.
    settings.path_style = path_style.value_or(settings.bucket.find('.') != std::string::npos);
    return Ok{};
  }
  Url endpoint = WARREN_TRY(parse_url(*given).within("endpoint"));
  bool is_plain = endpoint.user.empty() && endpoint.query.empty() && (endpoint.path.empty() || endpoint.path == "/");
  if ((endpoint.scheme != "http" && endpoint.scheme != "https") || endpoint.hosts.size() != 1 || !is_plain) {
    return Error(Code::kInvalid, "the endpoint is not of the form http://HOST:PORT or https://HOST",
                 "write it as endpoint=http://127.0.0.1:9000");
  }
  settings.endpoint = fmt::format("{}://{}", endpoint.scheme, to_lower(endpoint.hosts.front()));
  // As clients write the header Host, which is signed: without the port that goes without saying.
  std::string_view usual = endpoint.scheme == "http" ? ":80" : ":443";
  if (settings.endpoint.ends_with(usual)) settings.endpoint.resize(settings.endpoint.size() - usual.size());
  settings.path_style = path_style.value_or(true);
  return Ok{};
}

Status set_place(const Url& url, S3Settings& settings) {
  auto wrong = [](std::string_view what) {
    return Error(Code::kInvalid, fmt::format("the address {}", what), "write it as s3://BUCKET/PREFIX");
  };
  if (url.scheme != "s3") return wrong("does not begin with s3://");
  if (url.hosts.size() != 1) return wrong("does not name one bucket");
  settings.bucket = url.hosts.front();
  for (char c : settings.bucket) {
    bool is_valid = is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
    if (!is_valid) return wrong(fmt::format("has the bucket {}, which cannot be one", quote(settings.bucket)));
  }
  std::string prefix = WARREN_TRY(decode_percent(url.path));
  while (prefix.starts_with('/')) prefix.erase(0, 1);
  while (prefix.ends_with('/')) prefix.pop_back();
  if (prefix.empty()) return Ok{};
  WARREN_TRY(check_blob_key(prefix).within("prefix of the address"));
  settings.prefix = prefix + "/";
  return Ok{};
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::string S3Settings::host() const {
  std::string authority = endpoint.substr(endpoint.find("://") + 3);
  return path_style ? authority : fmt::format("{}.{}", bucket, authority);
}

std::string S3Settings::path_of(std::string_view key) const {
  std::string path = path_style ? fmt::format("/{}", bucket) : std::string();
  if (!key.empty()) path += "/" + encode_percent(prefix + std::string(key), "/");
  return path.empty() ? "/" : path;
}

std::string S3Settings::name() const { return fmt::format("s3://{}/{}?endpoint={}", bucket, prefix, endpoint); }

Result<S3Settings> read_s3_settings(const S3Address& address, const Environment& environment) {
  Url url = WARREN_TRY(parse_url(address.address));
  S3Settings settings;
  WARREN_TRY(set_place(url, settings));
  WARREN_TRY(check_options(url, kS3Options));
  settings.timeout = WARREN_TRY(duration_option(url, "timeout", address.timeout));
  std::size_t part_mib = WARREN_TRY(number_option(url, "part", 64, 5, 512));
  settings.part_bytes = std::uint64_t{part_mib} << 20;
  settings.conditional = WARREN_TRY(yes_no_option(url, "conditional"));
  std::optional<bool> ttl = WARREN_TRY(yes_no_option(url, "ttl"));
  settings.ttl = ttl.value_or(true);
  settings.ca_file = environment("AWS_CA_BUNDLE").value_or("");
  std::optional<std::string> region = environment("AWS_REGION");
  if (!region) region = environment("AWS_DEFAULT_REGION");
  if (const std::string* option = url.find("region")) region = *option;
  settings.scope.region = region.value_or("");
  WARREN_TRY(find_credentials(url, address, environment, settings));
  if (settings.scope.region.empty()) settings.scope.region = "us-east-1";
  for (char c : settings.scope.region) {
    if (!is_letter(c) && !is_digit(c) && c != '-') {
      return Error(Code::kInvalid, fmt::format("{} cannot be a region", quote(settings.scope.region)));
    }
  }
  WARREN_TRY(set_endpoint(url, environment, settings));
  // By its documentation; others are tried out.
  bool is_amazon = settings.endpoint.ends_with(".amazonaws.com");
  if (!settings.conditional && is_amazon) settings.conditional = true;
  return settings;
}

}  // namespace warren
