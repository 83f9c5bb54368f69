#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/syntax/completion.h"
#include "cli/syntax/suggestions.h"
#include "os/files/host_files.h"
#include "os/files/rewrite_file.h"

namespace warren::cli {
namespace {

constexpr std::size_t kConfigBytes = std::size_t{16} << 20;

bool is_agentfs(const Context& context) { return context.root.name == "agentfs"; }

// The shell command that loads our completions.
std::string loading_line(const Context& context, std::string_view shell) {
  if (is_agentfs(context)) {
    return shell == "fish" ? "COMPLETE=fish agentfs | source" : fmt::format("source <(COMPLETE={} agentfs)", shell);
  }
  return shell == "fish" ? "warren completions fish | source" : fmt::format("source <(warren completions {})", shell);
}

Result<std::string> shell_of(const Context& context, const Arguments& args) {
  if (auto given = args.find("SHELL")) return *given;
  std::string shell = context.environment("SHELL").value_or("");
  std::string name(base_name(shell));
  if (name == "bash" || name == "zsh" || name == "fish") return name;
  return Error(Code::kInvalid, "Could not detect current shell. Please specify a shell explicitly.");
}

Result<std::string> config_path(const Context& context, std::string_view shell) {
  std::optional<std::string> home = context.environment("HOME");
  if (!home || home->empty()) return Error(Code::kNotFound, "Could not determine config path");
  if (shell == "bash") return join_path(*home, ".bashrc");
  if (shell == "zsh") return join_path(*home, ".zshrc");
  std::string config = context.environment("XDG_CONFIG_HOME").value_or("");
  if (!config.starts_with('/')) config = join_path(*home, ".config");
  return join_path(config, "fish/config.fish");
}

// A shell's start-up file; the text is empty if it does not exist.
struct Config {
  std::string path;
  std::string text;
  std::optional<struct stat> there;
};
Result<Config> read_config(const Context& context, std::string_view shell) {
  Config config;
  config.path = WARREN_TRY(config_path(context, shell));
  config.there = WARREN_TRY(find_host_file(config.path));
  if (!config.there) return config;
  if (!S_ISREG(config.there->st_mode)) {
    return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(config.path)),
                 "`warren completions show` prints the line to add by hand");
  }
  config.path = WARREN_TRY(canonical_host_path(config.path));  // a dotfile may be a symlink; keep the link
  config.text = WARREN_TRY(read_host_file(config.path, kConfigBytes));
  return config;
}

Status write_config(const Config& config, const std::string& text) {
  if (config.there) return rewrite_host_file(config.path, text, *config.there);
  WARREN_TRY(make_host_dirs(std::string(directory_of(config.path)), 0755));
  return replace_host_file(config.path, text, 0644);
}

Result<Exit> run_bash(Context& context, const Arguments&) {
  context.out.write(bash_completion(context.root.name));
  return Exit::kOk;
}

Result<Exit> run_zsh(Context& context, const Arguments&) {
  context.out.write(zsh_completion(context.root.name));
  return Exit::kOk;
}

Result<Exit> run_fish(Context& context, const Arguments&) {
  context.out.write(fish_completion(context.root.name));
  return Exit::kOk;
}

// Where the line is, as a whole line.
std::size_t find_line(std::string_view text, std::string_view line) {
  for (std::size_t at = text.find(line); at != text.npos; at = text.find(line, at + 1)) {
    std::size_t end = at + line.size();
    bool is_whole = (at == 0 || text[at - 1] == '\n') && (end == text.size() || text[end] == '\n');
    if (is_whole) return at;
  }
  return text.npos;
}

// As a new last line, after an empty one if the text ends with a line break.
std::string with_line(std::string_view text, std::string_view line) { return fmt::format("{}\n{}\n", text, line); }

// The text to which with_line() added it, also if lines were added after it since then.
std::string without_line(std::string text, std::string_view line) {
  for (std::size_t at = find_line(text, line); at != text.npos; at = find_line(text, line)) {
    std::string before = text.substr(0, at == 0 ? 0 : at - 1);
    std::string after = text.substr(std::min(at + line.size() + 1, text.size()));
    bool must_part = !before.empty() && before.back() != '\n' && !after.empty();
    text = fmt::format("{}{}{}", before, must_part ? "\n" : "", after);
  }
  return text;
}

Result<Exit> run_install(Context& context, const Arguments& args) {
  std::string shell = WARREN_TRY(shell_of(context, args));
  Result<std::string> current = shell_of(context, Arguments());
  if (current.ok() && *current != shell) {
    context.err.print("Warning: Installing completions for {} but your current shell is {}\n", shell, *current);
  }
  Config config = WARREN_TRY(read_config(context, shell));
  std::string line = loading_line(context, shell);
  if (find_line(config.text, line) != config.text.npos) {
    context.out.print("Completions already installed in {}\n", config.path);
    return Exit::kOk;
  }
  WARREN_TRY(write_config(config, with_line(config.text, line)));
  context.out.print("Installed {} completions in {}\n", shell, config.path);
  context.out.print("Restart your shell or run: source {}\n", config.path);
  return Exit::kOk;
}

Result<Exit> run_uninstall(Context& context, const Arguments& args) {
  std::string shell = WARREN_TRY(shell_of(context, args));
  Config config = WARREN_TRY(read_config(context, shell));
  std::string line = loading_line(context, shell);
  if (find_line(config.text, line) == config.text.npos) {
    context.out.print("No completions found in {}\n", config.path);
    return Exit::kOk;
  }
  WARREN_TRY(write_config(config, without_line(config.text, line)));
  context.out.print("Removed completions from {}\nRestart your shell to apply changes.\n", config.path);
  return Exit::kOk;
}

Result<Exit> run_show(Context& context, const Arguments&) {
  context.out.line("Add one of the following lines to your shell configuration file:\n");
  context.out.print("Bash (~/.bashrc):\n  {}\n\n", loading_line(context, "bash"));
  context.out.print("Zsh (~/.zshrc):\n  {}\n\n", loading_line(context, "zsh"));
  context.out.print("Fish (~/.config/fish/config.fish):\n  {}\n\n", loading_line(context, "fish"));
  context.out.line("Then restart your shell or source your config file.");
  return Exit::kOk;
}

std::string_view kind_of(Suggest suggest) {
  switch (suggest) {
    case Suggest::kAgents:  // may be given as the path of a file
    case Suggest::kHostFiles: return "files";
    case Suggest::kHostDirs: return "directories";
    case Suggest::kBasePaths:
    case Suggest::kPaths: return "paths";  // inside an agent: the shell does not know them
    case Suggest::kKeys:
    case Suggest::kCheckpoints:
    case Suggest::kRelayAgents:
    case Suggest::kRelayChannels:
    case Suggest::kSessions:
    case Suggest::kNothing: break;
  }
  return "nothing";
}

// bash replaces only a part of the word at the cursor, and does not choose by itself.
void fit_to_bash(Completion& completion, const ShellWords& line) {
  const std::string& current = line.words.back();
  std::vector<Offer> fitting;
  for (Offer& offer : completion.offers) {
    if (!offer.word.starts_with(current)) continue;
    std::optional<std::string> quoted =
        quoted_for_bash(std::string_view(offer.word).substr(line.replaced_from), line.quote);
    if (quoted) fitting.push_back({.word = *quoted, .meaning = std::move(offer.meaning)});
  }
  completion.offers = std::move(fitting);
}

// bash closes the quotes after an offer that stands alone, also after a directory. So what is in it is offered at once.
void go_on_below(Context& context, std::vector<std::string> words, const ShellWords& line, Completion& completion) {
  constexpr int kLevels = 16;
  for (int level = 0; level < kLevels; ++level) {
    bool is_lone_dir =
        line.quote != '\0' && completion.offers.size() == 1 && completion.offers.front().word.ends_with('/');
    if (!is_lone_dir || kind_of(completion.suggest) != "paths") return;
    words.back() = completion.offers.front().word;
    Completion below = complete(context.root, words);
    add_suggestions(context, below, words.back());
    std::erase_if(below.offers, [&](const Offer& offer) { return !offer.word.starts_with(words.back()); });
    if (below.offers.empty()) return;
    completion.offers = std::move(below.offers);
  }
}

// Errors are not reported: they would appear in the middle of a line that somebody is typing.
Result<Exit> run_complete(Context& context, const Arguments& args) {
  std::vector<std::string> words = args.all("WORD");
  std::optional<std::string> breaks = args.find("line");
  Completion completion;
  ShellWords line;
  if (args.has("quoted") && !words.empty()) {
    line = split_shell_words(words.back(), "", Quoting::kFish);
    words.back() = line.words.back();
  }
  if (breaks) {
    line = split_shell_words(words.empty() ? "" : words.back(), *breaks);
    words.assign(line.words.begin() + (line.words.size() > 1 ? 1 : 0), line.words.end());  // without the program
    if (line.is_redirection) completion.suggest = Suggest::kHostFiles;
    else completion = complete(context.root, words);
  } else {
    completion = complete(context.root, words);
  }
  bool is_there = completion.directory.empty() || change_host_directory(completion.directory).ok();
  // What the shell replaces before the program sees it is not the beginning of a name.
  if (is_there && !line.is_expanded) add_suggestions(context, completion, words.empty() ? "" : words.back());
  if (breaks && !words.empty()) {
    std::erase_if(completion.offers, [&](const Offer& offer) { return !offer.word.starts_with(words.back()); });
    go_on_below(context, words, line, completion);
  }
  if (breaks) fit_to_bash(completion, line);
  context.out.line(kind_of(completion.suggest));
  for (const Offer& offer : completion.offers) context.out.print("{}\t{}\n", offer.word, offer.meaning);
  return Exit::kOk;
}

Command part(std::string_view name, std::string_view summary, std::vector<Positional> positionals, Handler handler) {
  return {.name = name,
          .summary = summary,
          .details = "",
          .positionals = std::move(positionals),
          .options = {},
          .subcommands = {},
          .handler = handler};
}

}  // namespace

Command make_completions() {
  Positional shell{.name = "SHELL",
                   .help = "the shell [default: $SHELL]",
                   .times = Times::kOptional,
                   .choices = {"bash", "zsh", "fish"}};
  return {.name = "completions",
          .summary = "Print or install shell completions",
          .details = "",
          .positionals = {},
          .options = {},
          .subcommands = {part("bash", "Print completions for bash", {}, run_bash),
                          part("zsh", "Print completions for zsh", {}, run_zsh),
                          part("fish", "Print completions for fish", {}, run_fish),
                          part("install", "Add completions to your shell's start-up file", {shell}, run_install),
                          part("uninstall", "Remove the line that install added to your shell's start-up file", {shell},
                               run_uninstall),
                          part("show", "Show how to add completions by hand", {}, run_show)},
          .handler = nullptr};
}

Command make_complete() {
  return {.name = "complete",
          .summary = "What may stand at the end of a command line; for the scripts of `completions`",
          .details = "",
          .positionals = {{.name = "WORD",
                           .help = "the words after the program's name, up to the cursor",
                           .times = Times::kAnyCommand}},
          .options = {{.name = "line",
                       .value = "BREAKS",
                       .help = "the only WORD is bash's command line, and these characters end a word"},
                      {.name = "quoted", .help = "the last WORD is as it was typed, with fish's quotes"}},
          .subcommands = {},
          .handler = run_complete,
          .is_hidden = true};
}

}  // namespace warren::cli
