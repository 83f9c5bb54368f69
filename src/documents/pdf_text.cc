#include <algorithm>

#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/printable.h"
#include "documents/document_text.h"
#include "documents/encoding.h"
#include "os/capture.h"
#include "os/fd.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kPdfTime{60'000};
constexpr std::string_view kPdfMemory = "1073741824";
constexpr std::string_view kPdfOutput = "67108864";

// The first line of what a program said.
std::string first_line(std::string_view text) {
  return printable(text.substr(0, std::min(text.find('\n'), std::size_t{200})));
}

}  // namespace

Result<DocumentText> pdf_text(std::string_view bytes) {
  Fd input = WARREN_TRY(open_scratch_file());
  WARREN_TRY(write_all(input.get(), as_bytes(bytes)));
  if (::lseek(input.get(), 0, SEEK_SET) != 0) return Error(Code::kIo, "cannot read the copy of the document");
  std::vector<std::string> words{"prlimit",
                                 fmt::format("--as={}", kPdfMemory),
                                 fmt::format("--fsize={}", kPdfOutput),
                                 "--cpu=60",
                                 "--nofile=64",
                                 "--core=0",
                                 "pdftotext",
                                 "-q",
                                 "-enc",
                                 "UTF-8",
                                 "-eol",
                                 "unix",
                                 "-",
                                 "-"};
  Result<Captured> ran = run_captured(words, "/", input.get(), kPdfTime);
  if (!ran.ok() && ran.error().code() == Code::kTimeout) {
    return Error(Code::kTimeout,
                 fmt::format("taking the text out of the PDF took more than {} s", kPdfTime.count() / 1000));
  }
  Captured done = WARREN_TRY(std::move(ran).within("run pdftotext"));
  if (done.status == 127 || done.errors.find("pdftotext: No such file") != std::string::npos) {
    return Error(Code::kUnavailable, "pdftotext is not installed", "install it: on Debian the package poppler-utils");
  }
  if (done.status != 0) {
    return Error(Code::kInvalid,
                 fmt::format("the PDF cannot be read: {}",
                             done.errors.empty() ? fmt::format("status {}", done.status) : first_line(done.errors)));
  }
  std::optional<std::string> text = decode_text(done.output);
  if (!text) return Error(Code::kInvalid, "the text of the PDF is not UTF-8");
  return DocumentText{.title = {}, .text = *std::move(text)};
}

}  // namespace warren
