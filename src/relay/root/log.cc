#include "relay/root/log.h"

#include <array>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "relay/root/root.h"

namespace warren::relay {
namespace {

constexpr std::array<std::string_view, 4> kSeverities = {"debug", "info", "warning", "error"};

}  // namespace

std::string_view name_of(Severity severity) { return kSeverities.at(static_cast<std::size_t>(severity)); }

std::optional<Severity> find_severity(std::string_view name) {
  for (std::size_t i = 0; i < kSeverities.size(); ++i) {
    if (kSeverities.at(i) == name) return static_cast<Severity>(i);
  }
  return std::nullopt;
}

Json Log::line(Severity severity, std::string_view event, const Json& details) {
  Timestamp now = clock_.now();
  Json out = Json::object();
  out["ts"] = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(now.seconds), now.nanoseconds / 1000);
  out["level"] = name_of(severity);
  out["event"] = event;
  for (const auto& [key, value] : details.items()) out[key] = value;
  return out;
}

void Log::set_options(std::uint64_t bytes_max, LogOptions options) {
  std::lock_guard lock(mutex_);
  bytes_max_ = bytes_max;
  old_files_ = options.old_files;
  least_ = options.least;
}

// The oldest file is overwritten.
void Log::rotate(File& file) {
  file.fd = Fd();
  for (int number = old_files_; number > 1; --number) {
    ::renameat(dir_, fmt::format("{}.{}", file.name, number - 1).c_str(), dir_,
               fmt::format("{}.{}", file.name, number).c_str());
  }
  if (old_files_ == 0) {
    ::unlinkat(dir_, file.name, 0);
  } else {
    ::renameat(dir_, file.name, dir_, fmt::format("{}.1", file.name).c_str());
  }
}

void Log::write(File& file, const Json& what) {
  std::string text = dump_json(what) + "\n";
  std::lock_guard lock(mutex_);
  if (file.fd.is_open() && file.size > 0 && file.size + text.size() > bytes_max_) rotate(file);
  if (!file.fd.is_open()) {
    Result<Fd> opened = open_below(dir_, file.name, O_WRONLY | O_APPEND | O_CREAT);
    if (!opened.ok()) return;
    file.fd = std::move(opened).take_value();
    struct stat info {};
    file.size = ::fstat(file.fd.get(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
  }
  write_all(file.fd.get(), as_bytes(text)).ignore("logging never stops messages");
  file.size += text.size();
}

void Log::note(Severity severity, std::string_view event, const Json& details) {
  if (wants(severity)) write(log_, line(severity, event, details));
}

void Log::audit(std::string_view event, const Json& details) {
  Json what = line(Severity::kWarning, event, details);
  write(audit_, what);
  write(log_, what);
}

}  // namespace warren::relay
