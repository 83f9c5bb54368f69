#include "sandbox/view/home_rules.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"

namespace warren {
namespace {

constexpr std::string_view kHiddenInHome[]{
    // Keys, tokens and passwords.
    ".config/warren", ".ssh", ".gnupg", ".pki", ".putty", ".step", ".age", ".config/age", ".config/sops", ".netrc",
    ".netrc.gpg", ".authinfo", ".authinfo.gpg", ".git-credentials", ".config/git/credentials", ".config/gh",
    ".config/hub", ".config/glab-cli", ".config/tea", ".vault-token", ".vault_pass", ".vault_pass.txt",
    ".smbcredentials", ".davfs2", ".Xauthority", ".ICEauthority", "_netrc", ".emacs.d/.authinfo",
    ".emacs.d/.authinfo.gpg", ".config/emacs/.authinfo", ".config/emacs/.authinfo.gpg", ".emacs.d/url/cookies",
    ".config/fish/fish_variables", ".config/mise/age.txt", ".subversion/auth", ".ollama", ".android/adbkey",
    ".config/llm", ".config/io.datasette.llm",
    // Package managers.
    ".npmrc", ".yarnrc.yml", ".config/pnpm/rc", ".pypirc", ".pip", ".config/pip", ".local/share/uv/credentials",
    ".config/pypoetry/auth.toml", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
    ".local/share/gem/credentials", ".bundle/config", ".m2/settings.xml", ".m2/settings-security.xml",
    ".gradle/gradle.properties", ".sbt/1.0/credentials", ".sbt/credentials", ".ivy2/.credentials",
    ".composer/auth.json", ".config/composer/auth.json", ".nuget/NuGet", ".config/NuGet", ".cabal/config",
    ".hex/hex.config", ".gradle/develocity", ".gradle/enterprise", ".gradle/gradle.encrypted.properties",
    ".m2/.develocity", ".m2/.gradle-enterprise", ".pub-cache/credentials.json", ".config/dart", ".sbt/.credentials",
    ".sbt/1.0/credentials.sbt", ".sbt/1.0/sonatype.sbt", ".sbt/gpg", ".julia/servers", ".stack/upload",
    ".conda/aau_token", ".lein/credentials.clj", ".luarocks/upload_config.lua", ".config/helm", ".config/configstore",
    ".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface", ".kaggle",
    // Databases.
    ".pgpass", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".mongorc.js", ".mongodb", ".snowflake", ".snowsql",
    ".databrickscfg",
    // Clouds and containers.
    ".aws", ".azure", ".config/gcloud", ".docker", ".kube", ".config/containers", ".config/doctl", ".config/hcloud",
    ".fly", ".config/netlify", ".vercel", ".config/vercel", ".local/share/com.vercel.cli", ".wrangler",
    ".config/.wrangler", ".config/ngrok", ".ngrok2", ".cloudflared", ".linode-cli", ".config/linode-cli", ".oci",
    ".bluemix", ".aliyun", ".tccli", ".s3cfg", ".boto", ".gsutil", ".pulumi", ".terraformrc",
    ".terraform.d/credentials.tfrc.json", ".circleci", ".travis", ".heroku", ".config/op", ".config/rclone",
    ".config/stripe", ".twilio-cli", ".sentryclirc", ".jira.d", ".minikube", ".talos", ".config/argocd", ".argocd",
    ".rancher", ".chef", ".ansible", ".tsh",
    // Browsers, mail and chat.
    ".mozilla", ".librewolf", ".waterfox", ".zen", ".thunderbird", ".config/google-chrome",
    ".config/google-chrome-beta", ".config/google-chrome-unstable", ".config/chromium", ".config/BraveSoftware",
    ".config/microsoft-edge", ".config/vivaldi", ".config/opera", "snap", ".var", ".config/evolution",
    ".local/share/evolution", ".config/geary", ".local/share/geary", ".fetchmailrc", ".msmtprc", ".config/msmtp",
    ".mutt", ".muttrc", ".config/neomutt", ".mbsyncrc", ".offlineimaprc", ".config/Slack", ".config/discord",
    ".config/Signal", ".config/Element", ".local/share/TelegramDesktop", ".weechat", ".config/weechat", ".irssi",
    ".config/hexchat", ".config/Code/User/globalStorage", ".config/Cursor/User/globalStorage",
    // Password stores and wallets.
    ".password-store", ".local/share/pass", ".local/share/gopass", ".config/gopass", ".local/share/keyrings",
    ".local/share/kwalletd", ".kde/share/apps/kwallet", ".config/keepassxc", ".config/KeePass", ".config/Bitwarden",
    ".config/Bitwarden CLI", ".config/1Password", ".lastpass", ".local/share/lpass", ".bitcoin", ".litecoin",
    ".dogecoin", ".ethereum", ".electrum", ".monero", ".bitmonero", ".config/solana", ".config/Exodus",
    ".config/atomic", ".config/Ledger Live", ".config/@trezor", ".near-credentials", ".sui", ".aptos",
    ".foundry/keystores", ".brownie/accounts",
    // Remote desktops and synchronised folders.
    ".config/filezilla", ".filezilla", ".config/remmina", ".local/share/remmina", ".vnc", ".config/Nextcloud",
    ".dropbox", ".config/syncthing", ".local/state/syncthing",
    // Histories.
    ".bash_history", ".zsh_history", ".zhistory", ".zsh_sessions", ".histfile", ".history", ".ash_history",
    ".ksh_history", ".local/share/fish/fish_history", ".config/nushell/history.txt", ".xonsh_history",
    ".python_history", ".ipython", ".node_repl_history", ".irb_history", ".php_history", ".psql_history",
    ".mysql_history", ".mariadb_history", ".sqlite_history", ".rediscli_history", ".dbshell", ".mongodb_history",
    ".lesshst", ".viminfo", ".local/share/nvim/shada", ".local/state/nvim", ".wget-hsts", ".local/share/atuin",
    ".local/share/zsh", ".local/state/zsh", ".local/state/bash", ".config/zsh/history", ".zsh/history",
    ".zsh/zsh_history", ".julia/logs", ".deno/deno_history.txt", ".emacs.d/history", ".emacs.d/savehist",
    ".emacs.d/eshell", ".config/emacs/history", ".config/emacs/eshell", ".vim/undo", ".vim/viminfo",
    ".config/nvim/undo", ".tmux/resurrect", ".config/tmux/resurrect",
    // Mail and transcripts of agents.
    ".agent-relay", ".claude/projects", ".claude/history.jsonl", ".claude/todos", ".claude/file-history",
    ".claude/shell-snapshots", ".claude/paste-cache", ".claude/debug", ".claude/session-env", ".codex/sessions",
    ".codex/archived_sessions", ".codex/history.jsonl", ".codex/log", ".gemini/tmp", ".gemini/history", ".qwen/tmp",
    ".local/share/opencode/storage", ".local/share/opencode/log", ".local/share/amp/threads", ".copilot/logs",
    ".local/share/opencode/opencode.db", ".local/share/opencode/project", ".local/share/opencode/snapshot",
    ".local/share/opencode/mcp-auth.json", ".local/share/crush/crush.db", ".local/share/amp/history.jsonl",
    ".local/share/goose", ".config/goose/history.txt", ".copilot/session-state", ".copilot/command-history-state.json",
    ".copilot/mcp-oauth-config", ".factory/sessions", ".factory/logs", ".factory/history.json", ".qwen/projects",
    ".qwen/history", ".cursor/prompt_history.json", ".config/cursor/chats", ".codex/state.db", ".codex/sqlite",
    ".codex/shell_snapshots", ".codex/memories", ".codex/.credentials.json", ".gemini/mcp-oauth-tokens.json",
    ".claude/sessions", ".claude/transcripts", ".claude/plans", ".claude/tasks", ".claude/backups", ".claude/uploads",
    ".claude/image-cache", ".claude/ide", ".continuum", ".copilot/history-session-state", ".cursor/chats",
    ".cursor/projects", ".aider.chat.history.md", ".aider.input.history"};

constexpr std::string_view kShownInHome[]{
    // Languages and their tools.
    ".rustup", ".cargo", ".nvm", ".fnm", ".local/share/fnm", ".volta", ".nodenv", ".npm-global", ".local/share/pnpm",
    ".config/yarn/global", ".bun", ".deno", "go", ".go", ".goenv", ".pyenv", ".virtualenvs", ".local/share/virtualenvs",
    ".local/share/uv", ".local/pipx", ".local/share/pipx", ".poetry", ".local/share/pypoetry", ".pixi", "miniconda3",
    "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda", ".sdkman", ".jenv", ".jabba", ".m2", ".gradle",
    ".ivy2", ".sbt", ".rbenv", ".rvm", ".gem", ".local/share/gem", ".bundle", ".opam", ".ghcup", ".cabal", ".stack",
    ".elan", ".juliaup", ".julia", ".dotnet", ".nuget/packages", ".swiftly", ".local/share/swiftly", ".zvm",
    ".pub-cache", "flutter", "Android/Sdk", ".composer", ".config/composer", ".foundry", ".wasmtime", ".wasmer",
    ".platformio", ".krew", ".tfenv", ".asdf", ".local/share/mise", ".config/mise", ".tool-versions", ".nix-profile",
    ".local/state/nix", ".linuxbrew", ".fzf", ".fzf.bash", ".fzf.zsh",
    // Programs of the user.
    "bin", ".local/bin", ".local/lib", ".local/share/man", ".local/share/bash-completion", ".terminfo",
    ".local/share/terminfo",
    // What package managers have downloaded.
    ".npm/_cacache", ".cache/pip", ".cache/uv", ".cache/go-build", ".cache/ms-playwright", ".cache/puppeteer",
    // Settings of git, shells and editors.
    ".gitconfig", ".config/git", ".gitignore", ".gitignore_global", ".gitattributes", ".gitmessage", ".bashrc",
    ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_functions", ".bashrc.d", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".zsh", ".oh-my-zsh", ".oh-my-bash", ".zinit",
    ".local/share/zinit", ".p10k.zsh", ".config/zsh", ".config/fish", ".local/share/fish", ".config/nushell",
    ".config/starship.toml", ".inputrc", ".dircolors", ".dir_colors", ".hushlogin", ".vimrc", ".vim", ".gvimrc",
    ".config/nvim", ".local/share/nvim", ".config/helix", ".config/micro", ".emacs", ".emacs.d", ".config/emacs",
    ".doom.d", ".config/doom", ".nanorc", ".config/nano", ".tmux.conf", ".tmux", ".config/tmux", ".screenrc",
    ".editorconfig", ".ackrc", ".ripgreprc", ".config/ripgrep", ".config/bat", ".config/direnv", ".config/htop",
    ".config/fd", ".config/lazygit", ".prettierrc", ".clang-format", ".clang-tidy", ".clangd", ".config/clangd",
    ".gdbinit", ".config/gdb", ".lldbinit", ".pylintrc", ".config/ruff", ".config/flake8", ".config/black",
    ".config/uv", ".nvmrc", ".node-version", ".python-version", ".ruby-version", ".config/user-dirs.dirs",
    // Agents.
    ".claude", ".claude.json", ".local/share/claude", ".codex", ".gemini", ".amp", ".config/amp", ".local/share/amp",
    ".opencode", ".config/opencode", ".local/share/opencode", ".config/crush", ".local/share/crush", ".qwen", ".cursor",
    ".config/cursor", ".local/share/cursor-agent", ".config/goose", ".copilot", ".config/github-copilot", ".factory",
    ".kimi", ".agents", ".aider.conf.yml", ".aider.model.settings.yml"};

constexpr std::string_view kSignInsOfAgents[]{".claude/.credentials.json",        ".codex/auth.json",
                                              ".gemini/oauth_creds.json",         ".gemini/google_accounts.json",
                                              ".qwen/oauth_creds.json",           ".local/share/amp/secrets.json",
                                              ".local/share/opencode/auth.json",  ".config/cursor/auth.json",
                                              ".config/github-copilot/apps.json", ".config/github-copilot/hosts.json"};

constexpr std::string_view kHiddenInSystem[]{"/etc/shadow",
                                             "/etc/shadow-",
                                             "/etc/gshadow",
                                             "/etc/gshadow-",
                                             "/etc/security/opasswd",
                                             "/var/backups/shadow.bak",
                                             "/var/backups/gshadow.bak",
                                             "/etc/ssl/private",
                                             "/etc/ssh/ssh_host_rsa_key",
                                             "/etc/ssh/ssh_host_ecdsa_key",
                                             "/etc/ssh/ssh_host_ed25519_key",
                                             "/etc/krb5.keytab",
                                             "/etc/wireguard",
                                             "/etc/NetworkManager/system-connections"};

// Credentials and histories wherever they are: tools keep their own copies of such files in their folders.
constexpr std::array<std::string_view, 14> kSecretNames{".npmrc",        ".pypirc",
                                                        ".netrc",        ".authinfo",
                                                        ".authinfo.gpg", ".git-credentials",
                                                        ".bash_history", ".zsh_history",
                                                        ".zhistory",     ".histfile",
                                                        "fish_history",  ".viminfo",
                                                        ".pgpass",       "access-keys.properties"};

// "sed" and six random characters.
bool is_of_sed(std::string_view name) {
  return name.size() == 9 && name.starts_with("sed") &&
         std::all_of(name.begin() + 3, name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

}  // namespace

std::span<const std::string_view> home_secrets() { return kHiddenInHome; }
std::span<const std::string_view> home_tools() { return kShownInHome; }
std::span<const std::string_view> home_sign_ins() { return kSignInsOfAgents; }
std::span<const std::string_view> system_secrets() { return kHiddenInSystem; }

bool is_secret_name(std::string_view name) {
  constexpr std::array<std::string_view, 5> kExamples{".env.example", ".env.sample", ".env.template", ".env.dist",
                                                      ".env.defaults"};
  if (is_of_sed(name)) return true;
  if (std::find(kSecretNames.begin(), kSecretNames.end(), name) != kSecretNames.end()) return true;
  if (std::find(kExamples.begin(), kExamples.end(), name) != kExamples.end()) return false;
  std::size_t at = name.find(".env");
  if (at == name.npos) return false;
  std::string_view after = name.substr(at + 4);
  bool is_whole = after.empty() || after == "rc" || !(is_letter(after.front()) || is_digit(after.front()));
  // ".env.local", "prod.env", ".#.env", "#.env#", "..env.swp", but not "app.env.js".
  return is_whole && (at == 0 || after.empty() || name.front() == '.' || name.front() == '#');
}

}  // namespace warren
