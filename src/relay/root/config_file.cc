#include "relay/root/config_file.h"

#include <utility>

#include <fmt/format.h>

namespace warren::relay {

Result<std::unique_ptr<ConfigFile>> ConfigFile::open(const Root& root) {
  std::unique_ptr<ConfigFile> file(new ConfigFile(root));
  Result<std::string> text = root.read_config_text();
  if (!text.ok() && text.error().code() == Code::kNotFound) text = std::string("{}");
  file->text_ = WARREN_TRY(std::move(text));
  file->config_ = WARREN_TRY(parse_config(file->text_).within("config.json"));
  return file;
}

// These are in use from the start on, some of them by other threads. Sets them to what they are, and returns those that
// differ.
std::vector<std::string> ConfigFile::keep_fixed(Config& fresh) const {
  std::vector<std::string> postponed;
  if (fresh.ledger != config_.ledger) postponed.emplace_back("ledger");
  if (fresh.metrics != config_.metrics) postponed.emplace_back("metrics");
  if (fresh.metrics_public != config_.metrics_public) postponed.emplace_back("metrics_public");
  fresh.ledger = config_.ledger;
  fresh.metrics = config_.metrics;
  fresh.metrics_public = config_.metrics_public;
  return postponed;
}

std::string config_refusal(const Error& why) {
  return fmt::format("{}, the relay keeps its configuration: {}", kConfigRefused, why.message());
}

std::string current_config_remark(const Root& root, std::string_view earlier) {
  Result<std::string> text = root.read_config_text();
  Result<Config> config = text.ok() ? parse_config(*text) : Result<Config>(text.error());
  if (config.ok()) return earlier.starts_with(kConfigRefused) ? "" : std::string(earlier);
  bool is_removed = !text.ok() && text.error().code() == Code::kNotFound;
  if (is_removed && earlier.starts_with(kConfigRefused)) return "";  // it keeps what it has
  bool is_unknown = is_removed || (!text.ok() && text.error().code() == Code::kBusy);
  return is_unknown ? std::string(earlier) : config_refusal(config.error());
}

std::optional<ConfigFile::Change> ConfigFile::reread() {
  Result<std::string> text = root_.read_config_text();
  bool is_same = text.ok() && *text == text_ && error_.empty();
  bool is_absent = !text.ok() && text.error().code() == Code::kNotFound;
  bool is_being_written = !text.ok() && text.error().code() == Code::kBusy;  // an event follows
  if (is_absent && !error_.empty()) {
    error_.clear();
    return Change{.is_removed = true};
  }
  if (is_same || is_absent || is_being_written) return std::nullopt;
  Result<Config> fresh = text.ok() ? parse_config(*text) : Result<Config>(text.error());
  if (!fresh.ok()) {
    bool is_reported = error_ == fresh.error().message();
    error_ = fresh.error().message();
    if (is_reported) return std::nullopt;
    return Change{.error = fresh.error()};
  }
  text_ = std::move(text).take_value();
  error_.clear();
  Change change{.postponed = keep_fixed(*fresh)};
  config_ = std::move(fresh).take_value();
  return change;
}

}  // namespace warren::relay
