#include "relay/delivery/archivist.h"

#include <utility>

namespace warren::relay {

std::vector<Filing> Archivist::file(std::vector<Filing> filings) {
  std::vector<Filing> again;
  for (Filing& filing : filings) {
    Status filed = mailroom_.archive(filing.agent, filing.file, filing.path);
    if (filed.ok()) continue;
    if (filed.error().code() == Code::kLimit) {
      again.push_back(std::move(filing));
      continue;
    }
    log_.note(Severity::kError, "archive_failed", {{"file", filing.file}, {"error", filed.error().message()}});
  }
  mailroom_.forget_dirs();
  return again;
}

}  // namespace warren::relay
