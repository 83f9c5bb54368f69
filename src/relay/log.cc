#include "relay/log.h"

#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "relay/root.h"

namespace warren::relay {
namespace {

std::string_view word_of(Severity severity) {
  switch (severity) {
    case Severity::kInfo: return "info";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  return "error";
}

}  // namespace

Json Log::line(Severity severity, std::string_view event, const Json& details) {
  Timestamp now = clock_.now();
  Json out = Json::object();
  out["ts"] = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(now.seconds), now.nanoseconds / 1000);
  out["level"] = word_of(severity);
  out["event"] = event;
  for (const auto& [key, value] : details.items()) out[key] = value;
  return out;
}

void Log::write(File& file, const Json& what) {
  std::string text = dump_json(what) + "\n";
  if (file.fd.is_open() && file.size + text.size() > bytes_max_) {
    std::string old = std::string(file.name) + ".1";
    ::renameat(dir_, file.name, dir_, old.c_str());
    file.fd = Fd();
  }
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
  write(log_, line(severity, event, details));
}

void Log::audit(std::string_view event, const Json& details) {
  Json what = line(Severity::kWarning, event, details);
  write(audit_, what);
  write(log_, what);
}

}  // namespace warren::relay
