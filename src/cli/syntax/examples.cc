#include "cli/syntax/examples.h"

#include <span>

namespace warren::cli {
namespace {

// `path` names a command without the program: "fs ls". A note may follow an example after two blanks and '#'.
struct Examples {
  std::string_view path;
  std::vector<std::string_view> lines;
};

const std::vector<Examples>& agent_examples() {
  static const std::vector<Examples> kAll{
      {"init", {"warren init notes", "warren init fix --base .  # copy-on-write over this directory"}},
      {"agents", {"warren agents", "warren -C ~/project agents --json"}},
      {"delete", {"warren delete notes"}},
      {"fs ls", {"warren fs notes ls -l /src", "warren fs notes ls -aR"}},
      {"fs tree", {"warren fs notes tree --depth 2"}},
      {"fs cat", {"warren fs notes cat /plan.md", "warren fs notes cat /plan.md@before-the-rewrite"}},
      {"fs stat", {"warren fs notes stat /plan.md"}},
      {"fs readlink", {"warren fs notes readlink /latest"}},
      {"fs find", {"warren fs notes find / -name '*.md'", "warren fs notes find /src --type f --min-size 1M"}},
      {"fs du", {"warren fs notes du -s /src", "warren fs notes du --bytes"}},
      {"fs grep",
       {"warren fs notes grep TODO", "warren fs notes grep -i -g '*.py' 'import (os|sys)' /src",
        "warren fs notes grep -l -e alice -e bob"}},
      {"fs edit", {"warren fs notes edit /plan.md", "EDITOR=nano warren fs notes edit /plan.md"}},
      {"fs write", {"warren fs notes write /plan.md 'first idea'", "warren fs notes write /token abc --ttl 5m"}},
      {"fs append", {"warren fs notes append /log.txt 'one more line'"}},
      {"fs cp", {"warren fs notes cp -r /src /copy"}},
      {"fs mv", {"warren fs notes mv /draft.md /final.md", "warren fs notes mv --exchange /a /b"}},
      {"fs rm", {"warren fs notes rm /draft.md", "warren fs notes rm -r /build"}},
      {"fs mkdir", {"warren fs notes mkdir -p /src/lib"}},
      {"fs rmdir", {"warren fs notes rmdir /empty"}},
      {"fs ln", {"warren fs notes ln -s plan.md /latest"}},
      {"fs chmod", {"warren fs notes chmod u+x /run.sh", "warren fs notes chmod -R go-w /src"}},
      {"fs touch", {"warren fs notes touch /marker", "warren fs notes touch -d 2026-01-31 /marker"}},
      {"fs put", {"warren fs notes put README.md /docs/", "warren fs notes put src"}},
      {"fs get", {"warren fs notes get /report.pdf", "warren fs notes get /src copy"}},
      {"kv get", {"warren kv notes get user", "warren kv notes get --string name"}},
      {"kv set", {"warren kv notes set count 3", "warren kv notes set --string name Alice --ttl 1d"}},
      {"kv del", {"warren kv notes del count"}},
      {"kv list", {"warren kv notes list --prefix user:"}},
      {"timeline", {"warren timeline notes", "warren timeline notes --status error --since 2026-01-31"}},
      {"tools record", {"warren tools notes record search --params '{\"q\": \"x\"}' --result '{\"hits\": 3}'"}},
      {"tools start", {"warren tools notes start search --params '{\"q\": \"x\"}'"}},
      {"tools succeed", {"warren tools notes succeed 7 --result '{\"hits\": 3}'"}},
      {"tools fail", {"warren tools notes fail 7 'no answer'"}},
      {"tools get", {"warren tools notes get 7"}},
      {"tools stats", {"warren tools notes stats"}},
      {"info", {"warren info notes", "warren info notes --bytes"}},
      {"key", {"warren key notes"}},
      {"encrypt", {"warren encrypt notes  # the whole agent file", "warren encrypt notes '/secrets/**'"}},
      {"rekey", {"warren rekey notes", "warren rekey notes '/secrets/**'"}},
      {"decrypt", {"warren decrypt notes", "warren decrypt notes '/secrets/**'"}},
      {"quota", {"warren quota notes", "warren quota notes --bytes 2G --inodes none"}},
      {"sql", {"warren sql notes 'SELECT count(*) FROM fs_inode'"}},
      {"checkpoint take",
       {"warren checkpoint take before-the-rewrite", "warren checkpoint notes take before-the-rewrite"}},
      {"checkpoint list", {"warren checkpoint list", "warren checkpoint notes list"}},
      {"checkpoint show", {"warren checkpoint notes show before-the-rewrite"}},
      {"checkpoint diff", {"warren checkpoint notes diff before-the-rewrite", "warren checkpoint notes diff -p 1 2"}},
      {"checkpoint restore",
       {"warren checkpoint notes restore before-the-rewrite", "warren checkpoint notes restore 3 /plan.md"}},
      {"checkpoint remove", {"warren checkpoint notes remove 1 2"}},
      {"checkpoint prune", {"warren checkpoint notes prune --keep 10 --older-than 30d"}},
      {"checkpoint push", {"warren checkpoint notes push s3://bucket/agents"}},
      {"checkpoint pull", {"warren checkpoint notes pull s3://bucket/agents"}},
      {"checkpoint remote", {"warren checkpoint notes remote s3://bucket/agents"}},
      {"log", {"warren log notes", "warren log notes /plan.md", "warren log notes --since 2026-01-31 --json"}},
      {"fork", {"warren fork notes experiment --at before-the-rewrite"}},
      {"backup", {"warren backup notes notes-backup.db"}},
      {"restore", {"warren restore notes notes-backup.db"}},
      {"fsck", {"warren fsck notes"}},
      {"migrate", {"warren migrate old"}},
  };
  return kAll;
}

const std::vector<Examples>& namespace_examples() {
  static const std::vector<Examples> kAll{
      {"vfs read", {"warren vfs notes read /mem/working/plan"}},
      {"vfs write", {"warren vfs notes write /mem/working/plan 'next: tests'"}},
      {"vfs append", {"warren vfs notes append /mem/episodic/today.jsonl '{\"did\": \"tests\"}'"}},
      {"vfs ls", {"warren vfs notes ls /mem"}},
      {"vfs rm", {"warren vfs notes rm /mem/working/plan"}},
      {"vfs exists", {"warren vfs notes exists /mem/working/plan"}},
      {"vfs stat", {"warren vfs notes stat /mem/working/plan"}},
      {"vfs tree", {"warren vfs notes tree /"}},
      {"vfs query", {"warren vfs notes query --text 'how to deploy'"}},
      {"vfs mounts", {"warren vfs notes mounts --check"}},
      {"policy show", {"warren policy notes show"}},
      {"policy set", {"warren policy notes set policy.json", "warren policy notes set --preset read-only"}},
      {"policy edit", {"warren policy notes edit"}},
      {"policy check", {"warren policy notes check policy.json"}},
      {"policy explain", {"warren policy notes explain write /mem/working/plan"}},
      {"policy history", {"warren policy notes history"}},
      {"context add", {"warren context notes add docs"}},
      {"context refresh", {"warren context notes refresh"}},
      {"context list", {"warren context notes list"}},
      {"context tree", {"warren context notes tree"}},
      {"context read", {"warren context notes read handbook:/setup.md"}},
      {"context write", {"warren context notes write handbook:/setup.md 'step one'"}},
      {"context edit", {"warren context notes edit k:/a '[{\"start_line\":1,\"end_line\":1,\"content\":\"x\"}]'"}},
      {"context info", {"warren context notes info handbook:/setup.md"}},
      {"context exists", {"warren context notes exists handbook:/setup.md"}},
      {"context delete", {"warren context notes delete handbook:/setup.md"}},
      {"context copy", {"warren context notes copy handbook:/setup.md handbook:/copy.md"}},
      {"context move", {"warren context notes move handbook:/setup.md handbook:/start.md"}},
      {"context create-dir", {"warren context notes create-dir handbook:/drafts"}},
      {"context dir-size", {"warren context notes dir-size handbook:/"}},
      {"context count-lines", {"warren context notes count-lines handbook:/setup.md"}},
      {"context search", {"warren context notes search 'how to deploy'"}},
      {"context status", {"warren context notes status"}},
      {"context embed", {"warren context notes embed"}},
      {"context reembed", {"warren context notes reembed"}},
      {"context chunks", {"warren context notes chunks handbook:/setup.md"}},
      {"context rebuild", {"warren context notes rebuild"}},
      {"tool", {"warren tool notes", "warren tool notes grep '{\"pattern\": \"TODO\"}'"}},
      {"audit show", {"warren audit notes show --op write --since 2026-01-31"}},
      {"audit tail", {"warren audit notes tail -f"}},
      {"audit verify", {"warren audit notes verify", "warren audit notes verify --anchor /mnt/usb/anchors.jsonl"}},
      {"audit export", {"warren audit notes export"}},
      {"audit anchor", {"warren audit notes anchor /mnt/usb/anchors.jsonl --every 10m"}},
      {"audit on", {"warren audit notes on"}},
      {"audit reads", {"warren audit notes reads"}},
      {"audit off", {"warren audit notes off"}},
      {"audit rotate", {"warren audit notes rotate"}},
      {"trust keygen", {"warren trust keygen issuer.key"}},
      {"trust sign", {"warren trust sign planner --key issuer.key --agent-key planner.key.pub"}},
      {"trust add", {"warren trust add planner.json"}},
      {"trust show", {"warren trust show"}},
      {"trust check", {"warren trust check planner.json"}},
      {"trust revoke", {"warren trust revoke planner"}},
      {"host up", {"warren host up"}},
      {"host status", {"warren host status"}},
      {"host down", {"warren host down"}},
      {"serve mcp", {"warren serve mcp notes"}},
      {"mcp install", {"warren mcp install claude notes"}},
  };
  return kAll;
}

const std::vector<Examples>& run_examples() {
  static const std::vector<Examples> kAll{
      {"run", {"warren run -- make test", "warren run --session fix -- bash"}},
      {"sessions", {"warren sessions", "warren sessions --json"}},
      {"sessions list", {"warren sessions list"}},
      {"sessions rename", {"warren sessions rename fix parser-fix"}},
      {"sessions delete", {"warren sessions delete fix"}},
      {"sessions prune", {"warren sessions prune --older 7d"}},
      {"home show", {"warren home show"}},
      {"home diff", {"warren home diff"}},
      {"home apply", {"warren home apply .config/tool"}},
      {"home undo", {"warren home undo"}},
      {"home reset", {"warren home reset"}},
      {"mount", {"warren mount", "warren mount notes /mnt/notes"}},
      {"umount", {"warren umount /mnt/notes", "warren umount notes"}},
      {"exec", {"warren exec notes ls -l"}},
      {"ps", {"warren ps"}},
      {"prune mounts", {"warren prune mounts"}},
      {"diff", {"warren diff fix", "warren diff fix -p src"}},
      {"review", {"warren review fix", "warren review fix src"}},
      {"merge", {"warren merge fix other --into both", "warren merge fix other --conflict markers"}},
      {"apply", {"warren apply fix", "warren apply fix src/parser.cc"}},
      {"undo", {"warren undo", "warren undo fix", "warren undo --list"}},
      {"discard", {"warren discard fix src/parser.cc"}},
      {"completions bash", {"warren completions bash"}},
      {"completions zsh", {"warren completions zsh"}},
      {"completions fish", {"warren completions fish"}},
      {"completions install", {"warren completions install"}},
      {"completions uninstall", {"warren completions uninstall zsh"}},
      {"completions show", {"warren completions show"}},
      {"man", {"warren man"}},
      {"version", {"warren version"}},
      {"help", {"warren help fs grep"}},
  };
  return kAll;
}

const std::vector<Examples>& relay_examples() {
  static const std::vector<Examples> kAll{
      {"relay up", {"warren relay up", "warren relay up --root ./relay"}},
      {"relay down", {"warren relay down"}},
      {"relay status", {"warren relay status"}},
      {"relay tail", {"warren relay tail"}},
      {"relay top", {"warren relay top"}},
      {"relay send", {"warren relay send bob 'tests pass' --from alice"}},
      {"relay broadcast", {"warren relay broadcast 'stop, please' --from alice"}},
      {"relay inbox", {"warren relay inbox bob"}},
      {"relay ack", {"warren relay ack bob alice/0001"}},
      {"relay nack", {"warren relay nack bob alice/0001 'not for me'"}},
      {"relay channels", {"warren relay channels"}},
      {"relay subscribe", {"warren relay subscribe bob builds"}},
      {"relay unsubscribe", {"warren relay unsubscribe bob builds"}},
      {"relay agents", {"warren relay agents", "warren relay agents --all"}},
      {"relay register", {"warren relay register bob"}},
      {"relay remove", {"warren relay remove bob"}},
      {"relay spawn", {"warren relay spawn worker --cli claude --prompt 'fix the tests'"}},
      {"relay release", {"warren relay release worker"}},
      {"relay dead list", {"warren relay dead list"}},
      {"relay dead show", {"warren relay dead show 3"}},
      {"relay dead redeliver", {"warren relay dead redeliver 3"}},
      {"relay dead discard", {"warren relay dead discard 3 4"}},
      {"relay operations", {"warren relay operations"}},
      {"relay archive list", {"warren relay archive list"}},
      {"relay archive prune", {"warren relay archive prune --older 7d"}},
      {"relay backup", {"warren relay backup ledger-copy.db"}},
      {"relay adopt", {"warren relay adopt bob"}},
      {"relay fsck", {"warren relay fsck"}},
      {"relay attachments list", {"warren relay attachments list"}},
      {"relay attachments collect", {"warren relay attachments collect"}},
  };
  return kAll;
}

// Commands that only have subcommands, and the program itself.
const std::vector<Examples>& group_examples() {
  static const std::vector<Examples> kAll{
      {"",
       {"warren run --session fix -- claude  # an agent that changes nothing of yours", "warren diff fix",
        "warren apply fix"}},
      {"fs", {"warren fs notes ls -l", "warren fs notes cat /plan.md", "warren fs notes grep TODO /src"}},
      {"kv", {"warren kv notes set count 3", "warren kv notes get count", "warren kv notes list"}},
      {"vfs", {"warren vfs notes ls /mem", "warren vfs notes write /mem/working/plan 'next: tests'"}},
      {"policy", {"warren policy notes show", "warren policy notes explain write /mem/working/plan"}},
      {"context", {"warren context notes add docs", "warren context notes search 'how to deploy'"}},
      {"audit", {"warren audit notes on", "warren audit notes show --since 2026-01-31", "warren audit notes verify"}},
      {"trust", {"warren trust add planner.json", "warren trust show"}},
      {"host", {"warren host up", "warren host status"}},
      {"serve", {"warren serve mcp notes"}},
      {"mcp", {"warren mcp install claude notes"}},
      {"home", {"warren home diff", "warren home apply .config/tool"}},
      {"prune", {"warren prune mounts"}},
      {"relay", {"warren relay up", "warren relay send bob 'tests pass' --from alice", "warren relay inbox bob"}},
      {"relay dead", {"warren relay dead list", "warren relay dead redeliver 3"}},
      {"relay archive", {"warren relay archive list", "warren relay archive prune --older 7d"}},
      {"relay attachments", {"warren relay attachments list"}},
      {"tools", {"warren tools notes start search --params '{\"q\": \"x\"}'", "warren tools notes stats"}},
      {"checkpoint",
       {"warren checkpoint notes take before-the-rewrite", "warren checkpoint notes diff before-the-rewrite",
        "warren checkpoint notes restore before-the-rewrite"}},
      {"completions", {"warren completions install"}},
  };
  return kAll;
}

Command* find_command(Command& root, std::string_view path) {
  Command* at = &root;
  while (!path.empty()) {
    std::size_t end = path.find(' ');
    std::string_view name = path.substr(0, end);
    path.remove_prefix(end == path.npos ? path.size() : end + 1);
    Command* next = nullptr;
    for (Command& sub : at->subcommands) {
      if (sub.name == name) next = &sub;
    }
    if (next == nullptr) return nullptr;
    at = next;
  }
  return at;
}

}  // namespace

void add_examples_to(Command& root) {
  for (const auto* table :
       {&group_examples(), &agent_examples(), &namespace_examples(), &run_examples(), &relay_examples()}) {
    for (const Examples& one : *table) {
      Command* command = find_command(root, one.path);
      if (command != nullptr && command->examples.empty()) command->examples = one.lines;
    }
  }
}

}  // namespace warren::cli
