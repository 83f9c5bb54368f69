#include "documents/content_type.h"

#include <algorithm>

#include "documents/libmagic.h"
#include "text/mime.h"

namespace warren {
namespace {

constexpr std::size_t kLookedAtBytes = std::size_t{1} << 20;

}  // namespace

struct ContentTypes::State {
  const Libmagic& library;
  magic_t cookie = nullptr;

  ~State() {
    if (cookie != nullptr) library.magic_close(cookie);
  }
};

ContentTypes::ContentTypes(std::unique_ptr<State> state) : state_(std::move(state)) {}
ContentTypes::~ContentTypes() = default;

Result<std::unique_ptr<ContentTypes>> ContentTypes::open() {
  const Libmagic* library = WARREN_TRY(load_libmagic());
  auto state = std::make_unique<State>(State{.library = *library});
  // It looks at the bytes alone: into no archive, and no tokens of languages, which it guesses badly.
  constexpr int kFlags = MAGIC_MIME_TYPE | MAGIC_NO_CHECK_COMPRESS | MAGIC_NO_CHECK_TAR | MAGIC_NO_CHECK_TOKENS |
                         MAGIC_NO_CHECK_ELF | MAGIC_NO_CHECK_APPTYPE;
  state->cookie = library->magic_open(kFlags);
  if (state->cookie == nullptr) return Error(Code::kUnavailable, "cannot start the file-type library");
  if (library->magic_load(state->cookie, nullptr) != 0) {
    const char* why = library->magic_error(state->cookie);
    return Error(Code::kUnavailable,
                 std::string("the data of the file-type library: ") + (why == nullptr ? "cannot be loaded" : why),
                 "install it: on Debian the package libmagic-mgc");
  }
  return std::unique_ptr<ContentTypes>(new ContentTypes(std::move(state)));
}

std::string ContentTypes::type_of(std::string_view name, std::string_view content) {
  std::string_view beginning = content.substr(0, kLookedAtBytes);
  std::string_view simple = mime_type_of(name, beginning);
  bool is_known_text = simple != "text/plain" && is_text(beginning, Extent::kBeginning);
  if (is_known_text) return std::string(simple);
  const char* found = state_->library.magic_buffer(state_->cookie, beginning.data(), beginning.size());
  std::string_view said = found == nullptr ? std::string_view() : found;
  bool is_known = !said.empty() && said != "application/octet-stream" && said != "application/x-empty" &&
                  said.find('/') != said.npos;
  if (!is_known) return std::string(simple);
  // Of other text, it knows some kinds by their beginnings; what it guesses beyond that is often wrong.
  bool is_sure = said == "text/html" || said == "text/xml" || said == "text/rtf" || said == "text/calendar";
  if (said.starts_with("text/") && !is_sure) return std::string(simple);
  return std::string(said);
}

}  // namespace warren
