#include <warren/error.h>

#include <utility>

namespace warren {

std::string_view name_of(Code code) {
  switch (code) {
    case Code::kInternal: return "internal";
    case Code::kInvalid: return "invalid";
    case Code::kNotFound: return "not_found";
    case Code::kExists: return "exists";
    case Code::kNotDirectory: return "not_directory";
    case Code::kIsDirectory: return "is_directory";
    case Code::kNotEmpty: return "not_empty";
    case Code::kNameTooLong: return "name_too_long";
    case Code::kLoop: return "loop";
    case Code::kNoSpace: return "no_space";
    case Code::kTooLarge: return "too_large";
    case Code::kReadOnly: return "read_only";
    case Code::kNotPermitted: return "not_permitted";
    case Code::kDenied: return "denied";
    case Code::kBusy: return "busy";
    case Code::kStale: return "stale";
    case Code::kNoData: return "no_data";
    case Code::kUnsupported: return "unsupported";
    case Code::kCorrupt: return "corrupt";
    case Code::kIo: return "io";
    case Code::kConflict: return "conflict";
    case Code::kTooManyLinks: return "too_many_links";
    case Code::kCrossDevice: return "cross_device";
    case Code::kLimit: return "limit";
    case Code::kTimeout: return "timeout";
    case Code::kUnavailable: return "unavailable";
    case Code::kBadHandle: return "bad_handle";
    case Code::kRange: return "range";
  }
  return "unknown";
}

Error::Error(Code code, std::string message) : state_(std::make_unique<State>(State{code, std::move(message), {}})) {}

Error::Error(Code code, std::string message, std::string hint)
    : state_(std::make_unique<State>(State{code, std::move(message), std::move(hint)})) {}

Error::Error(const Error& other) : state_(std::make_unique<State>(*other.state_)) {}

Error& Error::operator=(const Error& other) {
  if (this != &other) state_ = std::make_unique<State>(*other.state_);
  return *this;
}

Error&& Error::within(std::string_view what) && {
  state_->message.insert(0, std::string(what) + ": ");
  return std::move(*this);
}

Error&& Error::with_hint(std::string_view hint) && {
  state_->hint = hint;
  return std::move(*this);
}

}  // namespace warren
