#include "cli/context.h"

#include "os/fd.h"

namespace warren::cli {

Result<std::unique_ptr<Agent>> open_agent(Context& context, const Arguments& args, Use use) {
  OpenMode mode = use == Use::kRead ? OpenMode::kReadOnly : OpenMode::kReadWrite;
  return Agent::open({.id_or_path = args.get("ID"), .mode = mode}, context.clock);
}

Result<std::unique_ptr<Agent>> open_state(Context& context, const Arguments& args, Use use) {
  OpenMode mode = use == Use::kRead ? OpenMode::kReadOnly : OpenMode::kReadWrite;
  return Agent::open({.id_or_path = args.get("ID"), .mode = mode, .layers = Layers::kOwn}, context.clock);
}

Result<std::string> read_input(Context& context, std::size_t size_bytes_max) {
  constexpr std::size_t kStep = 65536;
  std::string text;
  for (;;) {
    std::size_t had = text.size();
    text.resize(had + kStep);
    std::size_t count =
        WARREN_TRY(read_full(context.input, as_mutable_bytes(text).subspan(had)).within("standard input"));
    text.resize(had + count);
    if (text.size() > size_bytes_max) {
      return Error(Code::kTooLarge, fmt::format("standard input has more than {} bytes", size_bytes_max));
    }
    if (count < kStep) return text;
  }
}

Exit refuse(Context& context, std::string_view message) {
  context.err.line(fmt::format("warren: {}", message));
  return Exit::kUsage;
}

}  // namespace warren::cli
