#include "drives/fetch.h"

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "clients/http.h"
#include "net/address.h"

namespace warren {
namespace {

Status check_public(std::string_view address, std::uint16_t) {
  std::optional<net::Address> parsed = net::Address::parse(address);
  if (parsed && parsed->is_public() && !net::is_own_address(*parsed)) return Ok{};
  return Error(Code::kDenied, fmt::format("the address {} is not one of the public internet", quote(address)),
               "an operator can fetch it with `warren context AGENT add --allow-private`");
}

// "text/html; charset=utf-8" in parts.
void set_kind(Fetched& fetched, std::string_view header) {
  fetched.mime = to_lower(trimmed(header.substr(0, header.find(';')), kWhitespace));
  std::string lower = to_lower(header);
  std::size_t at = lower.find("charset=");
  if (at == std::string::npos) return;
  std::string_view charset = std::string_view(lower).substr(at + 8);
  charset = trimmed(charset.substr(0, charset.find(';')), " \t\"'");
  fetched.charset = charset;
}

Error status_error(int status) {
  std::string what = fmt::format("the server answered with status {}", status);
  if (status == 404 || status == 410) return Error(Code::kNotFound, what);
  if (status == 401 || status == 403 || status == 407) {
    return Error(Code::kDenied, what, "only what needs no sign-in can be fetched; save it and add the file");
  }
  return Error(Code::kUnavailable, what);
}

}  // namespace

Fetcher::Fetcher(const FetchOptions& options, std::unique_ptr<HttpClient> client)
    : options_(options), client_(std::move(client)) {}
Fetcher::~Fetcher() = default;

Result<std::unique_ptr<Fetcher>> Fetcher::open(const FetchOptions& options) {
  HttpClientOptions how;
  how.redirects_max = options.redirects_max;
  if (!options.may_reach_private) how.check_address = check_public;
  auto client = WARREN_TRY(HttpClient::open(std::move(how)));
  return std::unique_ptr<Fetcher>(new Fetcher(options, std::move(client)));
}

Result<Fetched> Fetcher::fetch(const std::string& url) {
  HttpCall call;
  call.url = url;
  call.headers = {{"User-Agent", "warren"}, {"Accept", "text/markdown, text/html, text/plain, */*;q=0.5"}};
  call.timeout = options_.timeout;
  call.answer_bytes_max = options_.size_bytes_max;
  HttpAnswer answer = WARREN_TRY(client_->call(call));
  if (!answer.is_success()) return status_error(answer.status);
  const std::string* coding = answer.find("content-encoding");
  if (coding != nullptr && to_lower(*coding) != "identity") {
    return Error(Code::kUnsupported,
                 fmt::format("the server sends the content as {}, which was not asked for", quote(*coding)));
  }
  Fetched fetched;
  if (const std::string* type = answer.find("content-type")) set_kind(fetched, *type);
  fetched.body = std::move(answer.body);
  return fetched;
}

}  // namespace warren
