#include "mcp/install.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "testing/matchers.h"

namespace warren::mcp {
namespace {

const ServerEntry kEntry{
    .name = "warren-bob", .command = "/usr/bin/warren", .arguments = {"serve", "mcp", "/a \"b\".db"}};

TEST(McpInstall, EachClientGetsItsEntryAndLosesItAgain) {
  for (const ClientConfig& client : client_configs()) {
    std::string made = with_entry(client, "", kEntry).value();
    EXPECT_EQ(made, entry_text(client, kEntry)) << client.name;
    EXPECT_EQ(with_entry(client, made, kEntry).value(), made) << client.name;  // twice is once
    // An object without servers may be the user's own, so the file stays.
    std::string left =
        client.format == ConfigFormat::kToml ? "" : fmt::format("{{\n  \"{}\": {{}}\n}}\n", client.servers);
    EXPECT_EQ(without_entry(client, made, kEntry.name).value(), left) << client.name;
    EXPECT_FALSE(without_entry(client, "", kEntry.name).ok()) << client.name;
  }
}

TEST(McpInstall, EverythingElseStaysInJson) {
  const ClientConfig& gemini = *find_client_config("gemini");
  std::string before =
      "{\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"other\": {\n      \"command\": \"x\"\n    }\n  }\n}\n";
  std::string made = with_entry(gemini, before, kEntry).value();
  Json value = parse_json(made).value();
  EXPECT_EQ(value["theme"], "dark");
  EXPECT_EQ(value["mcpServers"]["other"]["command"], "x");
  EXPECT_EQ(value["mcpServers"]["warren-bob"]["args"][2], "/a \"b\".db");
  EXPECT_EQ(without_entry(gemini, made, kEntry.name).value(), before);
}

TEST(McpInstall, EverythingElseStaysInToml) {
  const ClientConfig& codex = *find_client_config("codex");
  std::string before = "model = \"o9\"  # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n";
  std::string made = with_entry(codex, before, kEntry).value();
  EXPECT_TRUE(made.starts_with(before));
  EXPECT_NE(made.find("[mcp_servers.\"warren-bob\"]\ncommand = \"/usr/bin/warren\"\n"), std::string::npos);
  EXPECT_EQ(without_entry(codex, made, kEntry.name).value(), before);
  EXPECT_FALSE(with_entry(codex, "[mcp_servers.warren-bob]\n", kEntry).ok());
}

TEST(McpInstall, ANameCannotWriteLinesOfItsOwn) {
  const ClientConfig& codex = *find_client_config("codex");
  for (std::string_view name : {"a\n[mcp_servers.evil]", "a\rb", "a\x7f", "", "\xff", "a\tb"}) {
    ServerEntry entry = kEntry;
    entry.name = name;
    EXPECT_FALSE(check_server_name(name).ok()) << name;
    EXPECT_FALSE(with_entry(codex, "", entry).ok()) << name;
  }
  EXPECT_TRUE(check_server_name("warren-bob's notes \u00e9").ok());
}

TEST(McpInstall, TomlIsReadBeforeAndAfterItIsChanged) {
  const ClientConfig& codex = *find_client_config("codex");
  for (std::string_view text :
       {"mcp_servers = { \"other\" = { command = \"x\" } }\n", "[mcp_servers]\nwarren-bob = { command = \"y\" }\n",
        "[mcp_servers.warren-bob]\n", "broken = [", "mcp_servers = 3\n",
        "a = \"\"\"\n# Written by warren: warren-bob\n# End of warren: warren-bob\n\"\"\"\n"}) {
    EXPECT_FALSE(with_entry(codex, text, kEntry).ok()) << text;
  }
  std::string dotted = "[mcp_servers]\nother.command = \"x\"\n";
  std::string made = with_entry(codex, dotted, kEntry).value();
  EXPECT_TRUE(made.starts_with(dotted));
  EXPECT_EQ(without_entry(codex, made, kEntry.name).value(), dotted);
}

TEST(McpInstall, WhatIsNotUnderstoodIsNotChanged) {
  const ClientConfig& claude = *find_client_config("claude");
  for (std::string_view text : {"{ // comment\n}", "[]", "{\"mcpServers\": 3}", "{\"a\":"}) {
    EXPECT_FALSE(with_entry(claude, text, kEntry).ok()) << text;
    EXPECT_FALSE(without_entry(claude, text, kEntry.name).ok()) << text;
  }
}

}  // namespace
}  // namespace warren::mcp
