#include "cli/show/pager.h"

#include <unistd.h>

namespace warren::cli {

Paged::Paged(Context& context) : context_(context) {
  auto variable = [&](std::string_view name) { return context.environment(name); };
  std::optional<std::string> terminal = variable("TERM");
  bool is_able = context.out.is_terminal() && terminal && !terminal->empty() && *terminal != "dumb";
  if (!is_able) return;
  std::optional<std::string> pager = variable("WARREN_PAGER");
  if (!pager) pager = variable("PAGER");
  if (!pager) pager = "less";
  if (pager->empty() || *pager == "cat") return;
  std::vector<std::string> settings;
  if (!variable("LESS")) settings.emplace_back("LESS=FRX");  // ends by itself if it fits; only colours pass
  if (!variable("LV")) settings.emplace_back("LV=-c");
  // A name is started directly, so that a missing pager is noticed; anything else is a shell's command line.
  bool is_name = pager->find_first_of(" \t\"'$`\\|&;<>()*?[]#~=%") == pager->npos;
  std::vector<std::string> words =
      is_name ? std::vector<std::string>{*pager} : std::vector<std::string>{"sh", "-c", *pager};
  Result<std::unique_ptr<OutputPipe>> started = OutputPipe::start(words, STDOUT_FILENO, settings);
  if (started.ok()) pipe_ = std::move(*started);  // without a pager the output goes to the terminal
}

Paged::~Paged() {
  if (pipe_ == nullptr) return;
  context_.out.finish().ignore("the reader may have ended the pager early");
  pipe_.reset();
}

}  // namespace warren::cli
