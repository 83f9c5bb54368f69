#include "sandbox/walls/environment.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren {
namespace {

// A name that ends with '*' stands for every name that begins like it.
bool matches_name(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

template <class Patterns>
bool matches_any(std::string_view name, const Patterns& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](std::string_view pattern) { return matches_name(name, pattern); });
}

// Whose user, which terminal, which language.
constexpr auto kPerson = std::to_array<std::string_view>({"HOME",
                                                          "USER",
                                                          "LOGNAME",
                                                          "USERNAME",
                                                          "SHELL",
                                                          "PATH",
                                                          "HOSTNAME",
                                                          "HOSTTYPE",
                                                          "OSTYPE",
                                                          "MACHTYPE",
                                                          "LANG",
                                                          "LANGUAGE",
                                                          "LC_*",
                                                          "TZ",
                                                          "TZDIR",
                                                          "TERM",
                                                          "TERMINFO",
                                                          "TERMINFO_DIRS",
                                                          "COLORTERM",
                                                          "COLORFGBG",
                                                          "COLUMNS",
                                                          "LINES",
                                                          "PS1",
                                                          "PS2",
                                                          "PS3",
                                                          "PS4",
                                                          "TERM_PROGRAM",
                                                          "TERM_PROGRAM_VERSION",
                                                          "VTE_VERSION",
                                                          "NO_COLOR",
                                                          "FORCE_COLOR",
                                                          "CLICOLOR",
                                                          "CLICOLOR_FORCE",
                                                          "LS_COLORS",
                                                          "LSCOLORS",
                                                          "GREP_COLORS",
                                                          "GCC_COLORS",
                                                          "EDITOR",
                                                          "VISUAL",
                                                          "PAGER",
                                                          "MANPAGER",
                                                          "MANPATH",
                                                          "INFOPATH",
                                                          "LESS",
                                                          "LESSCHARSET",
                                                          "BROWSER",
                                                          "CI",
                                                          "XDG_CONFIG_HOME",
                                                          "XDG_DATA_HOME",
                                                          "XDG_CACHE_HOME",
                                                          "XDG_STATE_HOME",
                                                          "XDG_DATA_DIRS"});

// Where tools are and how they build. Only names whose values are paths, flags and versions: not, for example,
// GOPROXY or PIP_INDEX_URL, whose addresses often contain a password.
constexpr auto kTools = std::to_array<std::string_view>(
    {// C and C++
     "CC", "CXX", "CPP", "LD", "AR", "AS", "NM", "RANLIB", "STRIP", "OBJCOPY", "CFLAGS", "CXXFLAGS", "CPPFLAGS",
     "LDFLAGS", "LDLIBS", "MAKE", "MAKEFLAGS", "CMAKE_*", "CTEST_*", "NINJA_STATUS", "PKG_CONFIG", "PKG_CONFIG_PATH",
     "PKG_CONFIG_LIBDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH",
     "CPLUS_INCLUDE_PATH", "CCACHE_DIR", "CCACHE_MAXSIZE", "CCACHE_DISABLE", "CCACHE_BASEDIR", "SOURCE_DATE_EPOCH",
     "OMP_NUM_THREADS", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "VCPKG_ROOT", "ASAN_OPTIONS", "UBSAN_OPTIONS",
     "TSAN_OPTIONS", "LSAN_OPTIONS",
     // Rust, Go
     "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "CARGO_BUILD_TARGET", "CARGO_INCREMENTAL",
     "CARGO_TERM_COLOR", "CARGO_NET_OFFLINE", "CARGO_PROFILE_*", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTC",
     "RUSTC_WRAPPER", "RUSTFLAGS", "RUSTDOCFLAGS", "RUST_BACKTRACE", "RUST_LOG", "GOROOT", "GOPATH", "GOBIN", "GOCACHE",
     "GOMODCACHE", "GOFLAGS", "GOOS", "GOARCH", "GOAMD64", "GOARM", "GOTOOLCHAIN", "GO111MODULE", "GOMAXPROCS",
     "CGO_ENABLED", "CGO_CFLAGS", "CGO_CXXFLAGS", "CGO_LDFLAGS",
     // Python
     "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING",
     "PYTHONUTF8", "PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE", "VIRTUAL_ENV",
     "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL",
     "PYENV_ROOT", "PYENV_SHELL", "PYENV_VERSION", "PIP_CACHE_DIR", "PIPX_HOME", "PIPX_BIN_DIR", "POETRY_HOME",
     "POETRY_CACHE_DIR", "UV_CACHE_DIR", "UV_PYTHON", "UV_TOOL_DIR",
     // JavaScript
     "NODE_ENV", "NODE_PATH", "NODE_OPTIONS", "NODE_VERSION", "NVM_DIR", "NVM_BIN", "NVM_INC", "FNM_DIR",
     "FNM_MULTISHELL_PATH", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "DENO_INSTALL", "COREPACK_HOME",
     "YARN_CACHE_FOLDER", "NPM_CONFIG_PREFIX", "npm_config_prefix", "NPM_CONFIG_CACHE", "npm_config_cache",
     // Java, Ruby, Perl, PHP, .NET, Haskell, OCaml, Android
     "JAVA_HOME", "JDK_HOME", "JRE_HOME", "MAVEN_HOME", "M2_HOME", "GRADLE_HOME", "GRADLE_USER_HOME", "ANT_HOME",
     "KOTLIN_HOME", "SCALA_HOME", "SDKMAN_DIR", "ANDROID_HOME", "ANDROID_SDK_ROOT", "ANDROID_NDK_HOME", "GEM_HOME",
     "GEM_PATH", "RUBYLIB", "RUBYOPT", "RBENV_ROOT", "RBENV_SHELL", "BUNDLE_PATH", "PERL5LIB", "PERL_MM_OPT",
     "PERL_MB_OPT", "PERL_LOCAL_LIB_ROOT", "COMPOSER_HOME", "DOTNET_ROOT", "GHCUP_INSTALL_BASE_PREFIX",
     "OPAM_SWITCH_PREFIX", "OPAMROOT", "ERL_LIBS", "MIX_ENV",
     // Managers of tools
     "ASDF_DIR", "ASDF_DATA_DIR", "MISE_SHELL"});

// More of the same, and what names authors, certificates and proxies.
constexpr auto kSurroundings = std::to_array<std::string_view>({"MISE_DATA_DIR",
                                                                "MISE_CONFIG_DIR",
                                                                "HOMEBREW_PREFIX",
                                                                "HOMEBREW_CELLAR",
                                                                "HOMEBREW_REPOSITORY",
                                                                "NIX_PATH",
                                                                "NIX_PROFILES",
                                                                "NIX_SSL_CERT_FILE",
                                                                "XDG_CONFIG_DIRS",
                                                                "DEBIAN_FRONTEND",
                                                                "GIT_AUTHOR_NAME",
                                                                "GIT_AUTHOR_EMAIL",
                                                                "GIT_COMMITTER_NAME",
                                                                "GIT_COMMITTER_EMAIL",
                                                                "GIT_EDITOR",
                                                                "GIT_PAGER",
                                                                "SSL_CERT_FILE",
                                                                "SSL_CERT_DIR",
                                                                "REQUESTS_CA_BUNDLE",
                                                                "CURL_CA_BUNDLE",
                                                                "NODE_EXTRA_CA_CERTS",
                                                                "GIT_SSL_CAINFO",
                                                                "PIP_CERT",
                                                                "CARGO_HTTP_CAINFO",
                                                                "HTTP_PROXY",
                                                                "http_proxy",
                                                                "HTTPS_PROXY",
                                                                "https_proxy",
                                                                "ALL_PROXY",
                                                                "all_proxy",
                                                                "FTP_PROXY",
                                                                "ftp_proxy",
                                                                "NO_PROXY",
                                                                "no_proxy",
                                                                "RSYNC_PROXY",
                                                                "npm_config_proxy",
                                                                "npm_config_https_proxy",
                                                                "npm_config_noproxy"});

struct Agent {
  std::string_view name;                    // of the program, or of its package
  std::vector<std::string_view> variables;  // by which it signs in and finds its service
};

const std::vector<Agent>& known_agents() {
  static const std::vector<std::string_view> kClaude{"ANTHROPIC_*", "CLAUDE_*", "AWS_BEARER_TOKEN_BEDROCK"};
  static const std::vector<std::string_view> kCodex{"OPENAI_*", "CODEX_*"};
  static const std::vector<std::string_view> kGemini{"GEMINI_*", "GOOGLE_API_KEY", "GOOGLE_GENAI_*",
                                                     "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"};
  // These work with models of many makers.
  static const std::vector<std::string_view> kMany{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_API_BASE",
                                                   "OPENAI_BASE_URL",   "GEMINI_API_KEY", "GOOGLE_API_KEY",
                                                   "DEEPSEEK_API_KEY",  "GROQ_API_KEY",   "OPENROUTER_API_KEY",
                                                   "MISTRAL_API_KEY",   "XAI_API_KEY",    "CEREBRAS_API_KEY",
                                                   "TOGETHER_API_KEY",  "OLLAMA_HOST",    "OLLAMA_API_BASE",
                                                   "AZURE_API_*",       "AIDER_*",        "OPENCODE_*",
                                                   "GOOSE_*",           "CRUSH_*"};
  static const std::vector<Agent> kAgents{{"claude", kClaude},
                                          {"claude-code", kClaude},
                                          {"codex", kCodex},
                                          {"gemini", kGemini},
                                          {"gemini-cli", kGemini},
                                          {"aider", kMany},
                                          {"aider-chat", kMany},
                                          {"opencode", kMany},
                                          {"goose", kMany},
                                          {"crush", kMany},
                                          {"amp", {"AMP_*"}},
                                          {"qwen", {"DASHSCOPE_API_KEY", "QWEN_*", "OPENAI_*"}},
                                          {"copilot", {"COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"}},
                                          {"cursor-agent", {"CURSOR_*"}},
                                          {"droid", {"FACTORY_API_KEY"}},
                                          {"openhands", {"LLM_*", "OPENHANDS_*"}}};
  return kAgents;
}

// Programs that run the program named after them.
constexpr auto kLaunchers = std::to_array<std::string_view>(
    {"npx", "bunx", "pnpx", "uvx", "pipx", "env", "nice", "ionice", "stdbuf", "setsid", "time", "run"});

// Set by the shell or by us: not worth a word.
constexpr auto kSilent = std::to_array<std::string_view>({"_", "SHLVL", "PWD", "OLDPWD", "TMPDIR"});

constexpr auto kOurs =
    std::to_array<std::string_view>({"AGENTFS", "AGENTFS_SANDBOX", "AGENTFS_SESSION", "WARREN_SANDBOX",
                                     "WARREN_SESSION", "WARREN_BASE", "WARREN_NAMESPACE"});

// They name sockets that do not exist inside the sandbox.
constexpr auto kSockets = std::to_array<std::string_view>(
    {"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DOCKER_HOST",
     "CONTAINER_HOST", "WAYLAND_DISPLAY", "XAUTHORITY", "ICEAUTHORITY"});

bool looks_secret(std::string_view name) {
  constexpr auto kWords =
      std::to_array<std::string_view>({"token", "secret", "key", "pass", "pwd", "cred", "auth", "cookie"});
  std::string lower = to_lower(name);
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return lower.find(word) != lower.npos; });
}

// Keys of agent files, audit trails and services, and where they are: for us, never for the command.
bool is_our_secret(std::string_view name) { return name.starts_with("WARREN_") && looks_secret(name); }

bool is_ours(std::string_view name) { return matches_any(name, kOurs) || is_our_secret(name); }

bool is_listed(std::string_view name) {
  return matches_any(name, kPerson) || matches_any(name, kTools) || matches_any(name, kSurroundings);
}

bool is_of_agent(std::string_view name, std::string_view agent) {
  const std::vector<Agent>& all = known_agents();
  auto found = std::find_if(all.begin(), all.end(), [&](const Agent& one) { return one.name == agent; });
  return found != all.end() && matches_any(name, found->variables);
}

bool is_name(std::string_view name) {
  bool is_valid = !name.empty() && !is_digit(name.front());
  return is_valid &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

// "/usr/bin/claude" → "claude"; "@anthropic-ai/claude-code@1.2" → "claude-code".
std::string_view program_of(std::string_view word) {
  std::string_view name = base_name(word);
  return name.substr(0, name.find('@', 1));
}

std::string_view without_quotes(std::string_view value) {
  bool is_quoted =
      value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front();
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

}  // namespace

Result<AskedVariable> parse_variable(std::string_view text) {
  std::size_t equals = text.find('=');
  std::string_view name = text.substr(0, equals);
  if (!is_name(name)) {
    return Error(Code::kInvalid, fmt::format("{} is not a valid name of a variable", quote(name)),
                 "give NAME or NAME=VALUE, with letters, digits and '_' in NAME");
  }
  if (is_our_secret(name)) {
    return Error(Code::kInvalid, fmt::format("{} is a secret of Warren, which no command gets", name));
  }
  if (is_ours(name)) {
    return Error(Code::kInvalid, fmt::format("{} is set by the sandbox and cannot be changed", name));
  }
  AskedVariable asked{.name = std::string(name), .value = std::nullopt};
  if (equals == text.npos) return asked;
  asked.value = text.substr(equals + 1);
  if (asked.value->find('\0') != std::string::npos) {
    return Error(Code::kInvalid, fmt::format("the value of {} contains a NUL byte", name));
  }
  return asked;
}

Result<std::vector<AskedVariable>> parse_environment_file(std::string_view text, std::string_view path) {
  std::vector<AskedVariable> all;
  for (int number = 1; !text.empty(); ++number) {
    std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trimmed(text.substr(0, end), kWhitespace);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with("export ")) line = trimmed(line.substr(7));
    Result<AskedVariable> one = parse_variable(line);
    if (!one.ok()) {
      // Not the parser's message: it quotes the beginning of the line, and that may be a secret.
      return Error(Code::kInvalid,
                   fmt::format("{} line {} is not NAME=VALUE or NAME, or names a variable that the sandbox sets",
                               quote(path), number));
    }
    if (one->value) one->value = std::string(without_quotes(*one->value));
    all.push_back(*std::move(one));
  }
  return all;
}

std::string_view agent_of(std::span<const std::string> words) {
  const std::vector<Agent>& all = known_agents();
  for (const std::string& word : words) {
    bool is_option = word.starts_with('-') || word.find('=') != word.npos;
    if (is_option) continue;
    std::string_view program = program_of(word);
    auto found = std::find_if(all.begin(), all.end(), [&](const Agent& one) { return one.name == program; });
    if (found != all.end()) return found->name;
    if (std::find(kLaunchers.begin(), kLaunchers.end(), program) == kLaunchers.end()) break;
  }
  return {};
}

Result<EnvironmentChoice> choose_environment(std::span<const std::string> outside, std::span<const std::string> words,
                                             std::span<const AskedVariable> asked, EnvironmentBasis basis,
                                             std::span<const std::string> secrets) {
  std::string_view agent = agent_of(words);
  std::map<std::string, std::string, std::less<>> all;
  std::map<std::string, std::string, std::less<>> passed;
  for (const std::string& variable : outside) {
    std::size_t equals = variable.find('=');
    if (equals == variable.npos || equals == 0) continue;
    std::string name = variable.substr(0, equals);
    all.emplace(name, variable.substr(equals + 1));
    bool is_secret = std::find(secrets.begin(), secrets.end(), name) != secrets.end();
    bool is_dead = is_secret || matches_any(name, kSockets) || is_ours(name) || matches_any(name, kSilent);
    bool is_passed = basis == EnvironmentBasis::kEverything || is_listed(name) || is_of_agent(name, agent);
    if (is_passed && !is_dead) passed.emplace(std::move(name), variable.substr(equals + 1));
  }
  for (const AskedVariable& one : asked) {
    auto outer = all.find(one.name);
    if (!one.value && outer == all.end()) {
      return Error(Code::kNotFound, fmt::format("--env: {} is not set", one.name),
                   fmt::format("set it, or give its value: --env {}=VALUE", one.name));
    }
    if (!one.value && std::find(secrets.begin(), secrets.end(), one.name) != secrets.end()) {
      return Error(Code::kInvalid,
                   fmt::format("--env: {} has the key of an agent file, which no command gets", one.name),
                   fmt::format("give another value: --env {}=VALUE", one.name));
    }
    passed.insert_or_assign(one.name, one.value ? *one.value : outer->second);
  }
  EnvironmentChoice choice;
  for (const auto& [name, value] : passed) choice.variables.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : all) {
    bool is_mentioned = !passed.contains(name) && !matches_any(name, kSilent) && !is_ours(name);
    if (is_mentioned) choice.held_back.push_back(name);
  }
  std::stable_partition(choice.held_back.begin(), choice.held_back.end(), looks_secret);
  return choice;
}

}  // namespace warren
