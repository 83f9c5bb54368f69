// The tools of files, keys, checkpoints, memory and the namespace, as a model calls them.
#include "tools/files/file_tools.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/blob/memory_blobs.h"
#include "base/base64.h"
#include "fs/path_ops.h"
#include "tools/files/search_walk.h"
#include "tools/schema.h"
#include "tools/tool_case_testing.h"

namespace warren {
namespace {

class FileTools : public ToolCase {
 protected:
  ToolAnswer call(std::string_view name, const Json& arguments) {
    const Tool* tool = find_tool(name);
    if (tool == nullptr) {
      ADD_FAILURE() << "no tool " << name;
      return {};
    }
    ToolContext used = context();
    used.is_cancelled = &is_cancelled_;
    used.ask = ask_;
    ToolAnswer answer = call_tool(used, *tool, arguments);
    if (!answer.error) {
      std::optional<std::string> problem = find_schema_problem(tool->output_schema(), answer.structured);
      EXPECT_EQ(problem.value_or(""), "") << name << dump_json(answer.structured);
    }
    return answer;
  }

  std::string error_type(std::string_view name, const Json& arguments) {
    ToolAnswer answer = call(name, arguments);
    return answer.error ? answer.error->type : "none: " + answer.text;
  }

  void put(std::string_view path, std::string_view content) { ASSERT_OK(write_file(*view_, path, as_bytes(content))); }
  std::string content_of(std::string_view path) { return read_file(*view_, path).value(); }

  std::atomic<bool> is_cancelled_ = false;
  std::function<Result<Consent>(const ConsentQuestion&)> ask_;
};

TEST_F(FileTools, EverySchemaUsesOnlyWhatIsChecked) {
  for (const Tool* tool : all_tools()) {
    EXPECT_EQ(find_unknown_keyword(tool->input_schema()).value_or(""), "") << tool->name;
    EXPECT_EQ(find_unknown_keyword(tool->output_schema()).value_or(""), "") << tool->name;
    EXPECT_NE(tool->description.find("xample"), std::string_view::npos) << tool->name << " needs an example";
  }
}

TEST_F(FileTools, ReadFileReturnsPagesThatJoinToTheFile) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "häß€ 🐇\n";
  put("/t", text);
  std::string joined;
  Json arguments{{"path", "/t"}, {"length", 777}};
  for (int page = 0; page < 100; ++page) {
    Json part = call("read_file", arguments).structured;
    joined += part["content"].get<std::string>();
    if (part["next_offset"].is_null()) break;
    arguments["offset"] = part["next_offset"];
  }
  EXPECT_EQ(joined, text);
}

TEST_F(FileTools, BytesThatAreNotTextComeAsABlob) {
  put("/i.png", std::string("\x89PNG\0\xff", 6));
  ToolAnswer answer = call("read_file", {{"path", "/i.png"}});
  ASSERT_TRUE(answer.blob.has_value());
  EXPECT_EQ(answer.blob->mime, "image/png");
  EXPECT_EQ(answer.blob->bytes.size(), 6U);
  EXPECT_EQ(call("read_file", {{"path", "/i.png"}, {"encoding", "base64"}}).structured["content"],
            encode_base64(as_bytes(std::string_view("\x89PNG\0\xff", 6))));
  EXPECT_EQ(error_type("read_file", {{"path", "/i.png"}, {"encoding", "utf8"}}), "invalid_argument");
}

TEST_F(FileTools, WriteFileMakesDirectoriesUnlessToldNotTo) {
  EXPECT_EQ(call("write_file", {{"path", "/a/b/c"}, {"content", "x"}}).text, "Wrote 1 bytes to /a/b/c");
  EXPECT_EQ(error_type("write_file", {{"path", "/n/x"}, {"content", ""}, {"create_dirs", false}}), "not_found");
  call("write_file", {{"path", "/a/b/c"}, {"content", "eQ=="}, {"encoding", "base64"}, {"append", true}});
  EXPECT_EQ(content_of("/a/b/c"), "xy");
  EXPECT_EQ(error_type("write_file", {{"path", "/a"}, {"content", "!"}, {"encoding", "base64"}}), "invalid_argument");
}

TEST_F(FileTools, EditsAreMadeAllOrNone) {
  put("/f", "one two two\n");
  EXPECT_EQ(
      error_type("edit_file",
                 {{"path", "/f"},
                  {"edits", {{{"old_text", "one"}, {"new_text", "1"}}, {{"old_text", "none"}, {"new_text", ""}}}}}),
      "not_found");
  EXPECT_EQ(error_type("edit_file", {{"path", "/f"}, {"edits", {{{"old_text", "two"}, {"new_text", "2"}}}}}),
            "conflict");
  EXPECT_EQ(content_of("/f"), "one two two\n");
  ToolAnswer done =
      call("edit_file", {{"path", "/f"}, {"edits", {{{"old_text", "two"}, {"new_text", "2"}, {"replace_all", true}}}}});
  EXPECT_EQ(content_of("/f"), "one 2 2\n");
  EXPECT_EQ(done.structured["diff"], "@@ -1 +1 @@\n-one two two\n+one 2 2\n");
  call("edit_file", {{"path", "/f"}, {"dry_run", true}, {"edits", {{{"old_text", "one"}, {"new_text", "1"}}}}});
  EXPECT_EQ(content_of("/f"), "one 2 2\n");
}

TEST_F(FileTools, ReaddirHasPages) {
  for (int i = 0; i < 5; ++i) put(fmt::format("/d/{}", i), "");
  Json first = call("readdir", {{"path", "/d"}, {"limit", 3}}).structured;
  EXPECT_EQ(first["entries"].size(), 3U);
  Json rest = call("readdir", {{"path", "/d"}, {"limit", 3}, {"cursor", first["next_cursor"]}}).structured;
  EXPECT_EQ(rest["entries"][0]["name"], "3");
  EXPECT_TRUE(rest["next_cursor"].is_null());
  EXPECT_EQ(error_type("readdir", {{"path", "/d"}, {"cursor", "?"}}), "invalid_argument");
}

TEST_F(FileTools, NamesAreChangedAsAgentFsDoes) {
  EXPECT_EQ(call("mkdir", {{"path", "/d"}}).text, "Created directory: /d");
  EXPECT_EQ(error_type("mkdir", {{"path", "/d"}}), "already_exists");
  put("/d/f", "x");
  EXPECT_EQ(error_type("remove", {{"path", "/d"}}), "not_empty");
  EXPECT_EQ(call("rename", {{"from", "/d/f"}, {"to", "/g"}}).text, "Renamed /d/f to /g");
  EXPECT_EQ(call("remove", {{"path", "/d"}}).text, "Removed: /d");
  EXPECT_EQ(call("copy", {{"from", "/g"}, {"to", "/h"}}).error, std::nullopt);
  EXPECT_EQ(content_of("/h"), "x");
  EXPECT_EQ(error_type("rename", {{"from", "/g"}, {"to", "/h"}, {"replace", false}}), "already_exists");
  EXPECT_EQ(call("access", {{"path", "/g"}}).text, R"({"exists":true})");
  EXPECT_EQ(call("stat", {{"path", "/g"}}).structured["is_file"], true);
}

TEST_F(FileTools, FindAndGrepSearchBelowADirectory) {
  put("/s/a.md", "alpha\nbeta\n");
  put("/s/t/b.md", "BETA\n");
  put("/s/t/c.txt", "beta");
  put("/s/bin", std::string_view("beta\0", 5));
  Json found = call("find", {{"path", "/s"}, {"pattern", "*.md"}}).structured["matches"];
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(call("find", {{"pattern", "/s/**/*.txt"}}).structured["matches"][0]["path"], "/s/t/c.txt");
  EXPECT_EQ(call("find", {{"path", "/s"}, {"type", "directory"}}).structured["matches"].size(), 1U);
  EXPECT_EQ(call("grep", {{"path", "/s"}, {"pattern", "beta"}}).text, "/s/a.md:2:beta\n/s/t/c.txt:1:beta\n");
  EXPECT_EQ(call("grep", {{"path", "/s"}, {"pattern", "^b.t"}, {"regex", true}, {"ignore_case", true}})
                .structured["matches"]
                .size(),
            3U);
  Json page = call("grep", {{"path", "/s"}, {"pattern", "beta"}, {"limit", 1}}).structured;
  Json next =
      call("grep", {{"path", "/s"}, {"pattern", "beta"}, {"limit", 1}, {"cursor", page["next_cursor"]}}).structured;
  EXPECT_EQ(next["matches"][0]["path"], "/s/t/c.txt");
  EXPECT_EQ(error_type("grep", {{"pattern", "("}, {"regex", true}}), "invalid_argument");
  is_cancelled_ = true;
  EXPECT_EQ(error_type("grep", {{"pattern", "x"}}), "unavailable");
}

TEST_F(FileTools, TheOrderOfAWalkIsByNames) {
  EXPECT_TRUE(comes_before("/a/b", "/a!"));
  EXPECT_TRUE(comes_before("/a", "/a/b"));
  EXPECT_FALSE(comes_before("/a!", "/a/b"));
}

TEST_F(FileTools, NoPathLeadsOutOfTheNamespace) {
  for (std::string_view path : {"/../../etc/passwd", "/mem/../../../etc/passwd", "/agent/other/mem/x"}) {
    for (std::string_view tool : {"read_file", "readdir", "stat", "tree", "remove"}) {
      ToolAnswer answer = call(tool, {{"path", path}});
      ASSERT_TRUE(answer.error.has_value()) << tool << path;
      EXPECT_TRUE(answer.error->type == "not_found" || answer.error->type == "denied") << answer.error->type;
    }
  }
  EXPECT_EQ(error_type("read_file", {{"path", std::string("/a\0b", 4)}}), "invalid_argument");
  EXPECT_EQ(error_type("read_file", {{"path", std::string(5000, 'x')}}), "invalid_argument");
}

TEST_F(FileTools, TheRulesOfTheNamespaceHoldForEveryTool) {
  EXPECT_EQ(error_type("write_file", {{"path", "/policy/x"}, {"content", ""}}), "denied");
  EXPECT_EQ(error_type("mkdir", {{"path", "/audit/x"}}), "denied");
  EXPECT_EQ(error_type("readdir", {{"path", "/ipc/outbox"}}), "denied");
  put("/ipc/outbox/secret", "needle");
  EXPECT_EQ(error_type("read_file", {{"path", "/ipc/outbox/secret"}}), "denied");
  EXPECT_EQ(call("grep", {{"pattern", "needle"}}).structured["matches"].size(), 0U);
  EXPECT_EQ(call("find", {{"pattern", "secret"}}).structured["matches"].size(), 0U);
  EXPECT_EQ(error_type("copy", {{"from", "/ipc/outbox/secret"}, {"to", "/x"}}), "denied");
  EXPECT_EQ(error_type("vfs_operation", {{"operation", "read"}, {"path", "/ipc/outbox/secret"}}), "denied");
  call("write_file", {{"path", "/mem/episodic/log"}, {"content", "one\n"}});
  EXPECT_EQ(
      error_type("edit_file", {{"path", "/mem/episodic/log"}, {"edits", {{{"old_text", "one"}, {"new_text", "two"}}}}}),
      "denied");
  EXPECT_EQ(error_type("memory", {{"command", "delete"}, {"path", "/memories/episodic/log"}}), "denied");
}

TEST_F(FileTools, KeysHoldAnyJsonValue) {
  for (const Json& value : {Json(nullptr), Json(1.5), Json("x"), Json::array({1, "2"}), Json{{"a", {{"b", true}}}}}) {
    EXPECT_EQ(call("kv_set", {{"key", "k"}, {"value", value}}).text, "Set key: k");
    EXPECT_EQ(call("kv_get", {{"key", "k"}}).structured["value"], value);
  }
  EXPECT_EQ(call("kv_get", {{"key", "none"}}).text, "null");
  EXPECT_EQ(call("kv_list", {{"prefix", "k"}}).structured["keys"], Json::array({"k"}));
  EXPECT_EQ(call("kv_delete", {{"key", "k"}}).structured["existed"], true);
  EXPECT_EQ(error_type("kv_set", {{"key", ""}, {"value", 1}}), "invalid_argument");
}

TEST_F(FileTools, VfsOperationTakesDataOfAnyType) {
  auto run = [&](std::string_view operation, std::string_view path, const Json& data) {
    Json arguments{{"operation", operation}, {"path", path}};
    if (!data.is_discarded()) arguments["data"] = data;
    return call("vfs_operation", arguments);
  };
  const Json none(Json::value_t::discarded);
  run("write", "/mem/working/t.json", {{"step", 1}});
  EXPECT_EQ(run("read", "/mem/working/t.json", none).structured["data"], (Json{{"step", 1}}));
  run("write", "/mem/working/n.txt", "plain");
  EXPECT_EQ(run("read", "/mem/working/n.txt", none).structured["data"], "plain");
  run("append", "/mem/episodic/log.jsonl", {{"a", 1}});
  run("append", "/mem/episodic/log.jsonl", {{"a", 2}});
  EXPECT_EQ(content_of("/mem/episodic/log.jsonl"), "{\"a\":1}\n{\"a\":2}\n");
  EXPECT_EQ(run("list", "/mem/working", none).structured["names"], Json::array({"n.txt", "t.json"}));
  EXPECT_EQ(run("exists", "/mem/working/no", none).structured["exists"], false);
  run("write", "/mem/semantic/cat.json", {{"text", "cat"}, {"embedding", {1.0, 0.0}}});
  EXPECT_EQ(run("query", "/mem/semantic", {{"embedding", {1.0, 0.0}}, {"top_k", 1}}).structured["matches"][0]["path"],
            "/mem/semantic/cat.json");
  run("delete", "/mem/working/n.txt", none);
  EXPECT_FALSE(exists(*view_, "/mem/working/n.txt").value());
  EXPECT_EQ(error_type("vfs_operation", {{"operation", "write"}, {"path", "/x"}}), "invalid_argument");
  for (const Json& count : {Json(-1), Json(0), Json(1e300), Json("5"), Json(nullptr)}) {
    Json query{{"embedding", {1, 2}}, {"top_k", count}};
    EXPECT_EQ(error_type("vfs_operation", {{"operation", "query"}, {"path", "/mem/semantic"}, {"data", query}}),
              "invalid_argument");
  }
}

TEST_F(FileTools, ACheckpointBringsPathsBackAndOnlyTheOperatorRestoresEverything) {
  put("/work/f", "old");
  EXPECT_EQ(call("checkpoint", {{"name", "before"}}).structured["checkpoint"]["name"], "before");
  put("/work/f", "new");
  put("/other", "stays");
  is_cancelled_ = true;
  EXPECT_EQ(error_type("diff", {{"from", "before"}, {"patch", true}}), "unavailable");
  is_cancelled_ = false;
  Json changed = call("diff", {{"from", "before"}, {"patch", true}}).structured;
  EXPECT_EQ(changed["total"], 2U);
  EXPECT_NE(changed["patch"].get<std::string>().find("+new"), std::string::npos);
  EXPECT_EQ(error_type("restore", {{"checkpoint", "before"}}), "denied");
  EXPECT_EQ(error_type("restore", {{"checkpoint", "before"}, {"paths", {"/policy"}}}), "denied");
  EXPECT_EQ(error_type("restore", {{"checkpoint", "before"}, {"paths", {"/"}}}), "denied");
  EXPECT_EQ(call("restore", {{"checkpoint", "before"}, {"paths", {"/work"}}}).error, std::nullopt);
  EXPECT_EQ(content_of("/work/f"), "old");
  EXPECT_EQ(content_of("/other"), "stays");
  EXPECT_EQ(call("history", Json::object()).structured["total"], 2U);
  EXPECT_EQ(error_type("restore", {{"checkpoint", "none"}, {"paths", {"/work"}}}), "not_found");
}

TEST_F(FileTools, TheQuestionBeforeARestoreNamesWhatItReplacesAndTheYesIsForThat) {
  for (const char* path : {"/work/a", "/work/same", "/work/deleted"}) put(path, "old");
  call("checkpoint", {{"name", "before"}});
  put("/work/a", "new");
  put("/work/d/added", "new");
  ASSERT_OK(unlink(*view_, "/work/deleted"));
  std::string asked;
  Consent answer = Consent::kNo;
  std::function<void()> meanwhile;
  ask_ = [&](const ConsentQuestion& question) -> Result<Consent> {
    asked = question.text;
    if (meanwhile) meanwhile();
    return answer;
  };
  Json restore{{"checkpoint", "before"}, {"paths", {"/work"}}};
  EXPECT_EQ(error_type("restore", restore), "denied");
  EXPECT_NE(asked.find("changed since: 3 files and directories (a, d, added)."), std::string::npos) << asked;
  answer = Consent::kYes;
  for (std::string_view path : {"/work/a", "/work/same", "/work/deleted", "/work/d/later"}) {
    meanwhile = [&] { put(path, "written meanwhile"); };
    EXPECT_EQ(error_type("restore", restore), "conflict") << path;
    EXPECT_EQ(content_of(path), "written meanwhile");
  }
  meanwhile = nullptr;
  EXPECT_EQ(call("restore", restore).error, std::nullopt);
  EXPECT_EQ(asked,
            "Restore /work from checkpoint 'before'? It replaces or removes what was changed since: 6 files and "
            "directories (a, d, added, later, deleted, …).");
  EXPECT_EQ(content_of("/work/a"), "old");
  EXPECT_FALSE(exists(*view_, "/work/d").value());
  call("checkpoint", {{"name", "after"}});
  ASSERT_OK(unlink(*view_, "/work/same"));
  restore["checkpoint"] = "after";
  EXPECT_EQ(call("restore", restore).error, std::nullopt);
  EXPECT_EQ(asked, "Restore /work from checkpoint 'after'? Nothing that is there was changed since.");
  EXPECT_EQ(content_of("/work/same"), "old");
}

TEST_F(FileTools, TheQuestionBeforeARestoreInAMountNamesOnlyWhatWasChanged) {
  MemoryBlobs blobs(clock_);
  view_.reset();
  names_.reset();
  names_ = AgentNamespace::open(*agent_, {.stores = {{.path = "/ext", .store = blobs}}}, clock_).value();
  view_ = (*names_)->view({.agent = names_->agent_id(), .space = Space::kUser, .door = "mcp", .session = {}});
  std::string asked;
  std::function<void()> meanwhile = [] {};
  ask_ = [&](const ConsentQuestion& question) -> Result<Consent> {
    asked = question.text;
    meanwhile();
    return Consent::kYes;
  };
  for (const std::string top : {"/ext/r", "/mem/working/r"}) {
    for (const char* name : {"/a", "/same", "/d/x"}) put(top + name, "old");
    std::string name = top == "/ext/r" ? "one" : "two";
    EXPECT_EQ(call("checkpoint", {{"name", name}}).error, std::nullopt);
    Json restore{{"checkpoint", name}, {"paths", {top}}};
    EXPECT_EQ(call("restore", restore).error, std::nullopt);
    EXPECT_NE(asked.find("Nothing that is there was changed since."), std::string::npos) << asked;
    put(top + "/a", "new");
    put(top + "/d/added", "new");
    meanwhile = [&] { put(top + "/same", "mid"); };
    EXPECT_EQ(error_type("restore", restore), "conflict");
    EXPECT_NE(asked.find("changed since: 2 files and directories (a, added)."), std::string::npos) << asked;
    meanwhile = [] {};
    EXPECT_EQ(call("restore", restore).error, std::nullopt);
    EXPECT_EQ(content_of(top + "/same"), "old");
  }
  view_.reset();
  names_.reset();
}

TEST_F(FileTools, ACancelledRemovalRemovesNothingMore) {
  put("/d/a", "x");
  put("/mem/d/a", "x");
  is_cancelled_ = true;
  EXPECT_EQ(error_type("remove", {{"path", "/d"}, {"recursive", true}}), "unavailable");
  EXPECT_EQ(error_type("memory", {{"command", "delete"}, {"path", "/memories/d"}}), "unavailable");
  is_cancelled_ = false;
  EXPECT_EQ(content_of("/d/a"), "x");
  EXPECT_EQ(content_of("/mem/d/a"), "x");
  EXPECT_EQ(call("remove", {{"path", "/d"}, {"recursive", true}}).error, std::nullopt);
}

TEST_F(FileTools, ACancelledCopyOrRenameOfATreeCopiesNothingMore) {
  put("/d/a", "x");
  is_cancelled_ = true;
  EXPECT_EQ(error_type("copy", {{"from", "/d"}, {"to", "/e"}, {"recursive", true}}), "unavailable");
  EXPECT_EQ(error_type("rename", {{"from", "/d"}, {"to", "/mem/working/d"}}), "unavailable");
  is_cancelled_ = false;
  EXPECT_FALSE(exists(*view_, "/e").value());
  EXPECT_FALSE(exists(*view_, "/mem/working/d").value());
  EXPECT_EQ(content_of("/d/a"), "x");
}

TEST_F(FileTools, ACopyIntoADirectoryAnswersWithThePathItMadeAndIsNotMadeTwice) {
  put("/src/a", "x");
  put("/d/other", "y");
  Json copy{{"from", "/src"}, {"to", "/d"}, {"recursive", true}};
  ToolAnswer made = call("copy", copy);
  EXPECT_EQ(made.text, "Copied /src to /d/src");
  EXPECT_EQ(made.structured["to"], "/d/src");
  EXPECT_EQ(content_of("/d/src/a"), "x");
  put("/d/src/a", "changed");
  ToolAnswer again = call("copy", copy);
  ASSERT_TRUE(again.error.has_value());
  EXPECT_EQ(again.error->type, "already_exists");
  EXPECT_NE(again.error->message.find("'/d/src' exists already"), std::string::npos) << again.error->message;
  EXPECT_EQ(content_of("/d/src/a"), "changed");
  put("/f", "z");
  EXPECT_EQ(call("copy", {{"from", "/f"}, {"to", "/d/"}}).text, "Copied /f to /d/f");
}

TEST_F(FileTools, HintsOfRenameAndCopySayWhatToDo) {
  put("/d/a", "x");
  put("/b", "x");
  auto hint = [&](std::string_view tool, const Json& arguments) {
    ToolAnswer answer = call(tool, arguments);
    return answer.error ? answer.error->next_action_hint : "none: " + answer.text;
  };
  EXPECT_NE(hint("copy", {{"from", "/d"}, {"to", "/e"}}).find("\"recursive\": true"), std::string::npos);
  EXPECT_NE(hint("copy", {{"from", "/d"}, {"to", "/d/e"}, {"recursive", true}}).find("not below '/d'"),
            std::string::npos);
  EXPECT_NE(hint("rename", {{"from", "/d"}, {"to", "/d/e"}}).find("not below '/d'"), std::string::npos);
  EXPECT_NE(hint("rename", {{"from", "/b"}, {"to", "/d/a"}, {"replace", false}}).find("/d/a"), std::string::npos);
  EXPECT_NE(hint("rename", {{"from", "/mem/working"}, {"to", "/w"}}).find("what is in it"), std::string::npos);
}

TEST_F(FileTools, TheMemoryToolSaysWhatItsClientsExpect) {
  auto run = [&](Json arguments) { return call("memory", arguments).text; };
  EXPECT_EQ(run({{"command", "create"}, {"path", "/memories/a.md"}, {"file_text", "one\ntwo\nthree"}}),
            "File created successfully at: /memories/a.md");
  EXPECT_EQ(run({{"command", "create"}, {"path", "/memories/a.md"}, {"file_text", ""}}),
            "File /memories/a.md already exists");
  EXPECT_EQ(run({{"command", "view"}, {"path", "/memories/a.md"}}),
            "Here's the content of /memories/a.md with line numbers:\n     1\tone\n     2\ttwo\n     3\tthree");
  EXPECT_EQ(run({{"command", "view"}, {"path", "/memories/a.md"}, {"view_range", {2, -1}}}),
            "Here's the content of /memories/a.md with line numbers:\n     2\ttwo\n     3\tthree");
  EXPECT_EQ(run({{"command", "str_replace"}, {"path", "/memories/a.md"}, {"old_str", "two"}, {"new_str", "2"}}),
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            "     1\tone\n     2\t2\n     3\tthree");
  EXPECT_EQ(run({{"command", "str_replace"}, {"path", "/memories/a.md"}, {"old_str", "zzz"}, {"new_str", ""}}),
            "No replacement was performed, old_str `zzz` did not appear verbatim in /memories/a.md.");
  EXPECT_EQ(
      run({{"command", "str_replace"}, {"path", "/memories/a.md"}, {"old_str", "e"}, {"new_str", ""}}),
      "No replacement was performed. Multiple occurrences of old_str `e` in lines: 1, 3. Please ensure it is unique");
  EXPECT_EQ(run({{"command", "insert"}, {"path", "/memories/a.md"}, {"insert_line", 0}, {"insert_text", "zero\n"}}),
            "The file /memories/a.md has been edited.");
  EXPECT_EQ(content_of("/mem/a.md"), "zero\none\n2\nthree");
  EXPECT_EQ(run({{"command", "insert"}, {"path", "/memories/a.md"}, {"insert_line", 9}, {"insert_text", ""}}),
            "Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 4]");
  EXPECT_EQ(run({{"command", "rename"}, {"old_path", "/memories/a.md"}, {"new_path", "/memories/d/b.md"}}),
            "Successfully renamed /memories/a.md to /memories/d/b.md");
  EXPECT_EQ(run({{"command", "view"}, {"path", "/memories"}}),
            "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and "
            "node_modules:\n0B\t/memories\n0B\t/memories/d/\n16B\t/memories/d/b.md\n0B\t/memories/episodic/\n"
            "0B\t/memories/semantic/\n0B\t/memories/working/");
  EXPECT_EQ(run({{"command", "view"}, {"path", "/memories/none"}}),
            "The path /memories/none does not exist. Please provide a valid path.");
  EXPECT_EQ(run({{"command", "delete"}, {"path", "/memories/none"}}), "The path /memories/none does not exist");
  EXPECT_EQ(run({{"command", "delete"}, {"path", "/memories"}}), "Cannot delete the /memories directory itself");
  EXPECT_EQ(run({{"command", "delete"}, {"path", "/memories/d"}}), "Successfully deleted /memories/d");
  EXPECT_EQ(run({{"command", "view"}, {"path", "/etc"}}), "Path must start with /memories, got: /etc");
  EXPECT_EQ(run({{"command", "view"}, {"path", "/memories/../policy"}}),
            "Path /memories/../policy would escape /memories directory");
}

TEST_F(FileTools, MediaTypesAndUrisAreOfTheFile) {
  EXPECT_EQ(media_type_of("/a.MD", ""), "text/markdown");
  EXPECT_EQ(media_type_of("/a", "text"), "text/plain");
  EXPECT_EQ(media_type_of("/a.jsonl", "{}\n"), "application/jsonl");
  EXPECT_EQ(media_type_of("/a", "x\xff\xff y"), "application/octet-stream");
  EXPECT_EQ(media_type_of("/a", "\x89PNG\r\n\x1a\n"), "image/png");
  EXPECT_EQ(media_type_of("/a.png", "x\xff\xff y"), "image/png");
  EXPECT_EQ(media_type_of("/a.md", "x\xff\xff y"), "application/octet-stream");
  EXPECT_EQ(vfs_uri("bob", "/a b/\xc3\xa4%"), "vfs://bob/a%20b/%C3%A4%25");
}

TEST_F(FileTools, RenamingBetweenMountsCopiesAndRemoves) {
  put("/a", "one");
  put("/dir/deep/b", "two");
  call("rename", {{"from", "/a"}, {"to", "/mem/working/a"}});
  EXPECT_EQ(content_of("/mem/working/a"), "one");
  EXPECT_FALSE(exists(*view_, "/a").value());
  call("rename", {{"from", "/dir"}, {"to", "/mem/working/dir"}});
  EXPECT_EQ(content_of("/mem/working/dir/deep/b"), "two");
  EXPECT_FALSE(exists(*view_, "/dir").value());
  put("/c", "three");
  EXPECT_EQ(error_type("rename", {{"from", "/c"}, {"to", "/mem/working/a"}, {"replace", false}}), "already_exists");
  EXPECT_EQ(error_type("rename", {{"from", "/c"}, {"to", "/mem/working/dir"}}), "already_exists");
  call("rename", {{"from", "/mem/working/a"}, {"to", "/c"}});
  EXPECT_EQ(content_of("/c"), "one");
  EXPECT_FALSE(exists(*view_, "/mem/working/a").value());
}

TEST_F(FileTools, AMoveWhoseOriginalStaysSaysSo) {
  ASSERT_OK(write_file(agent_->fs(), "/policy/active.json",
                       as_bytes(R"({"version": 1, "rules": [{"path": "/kept/a", "operation": ["delete"],
                                    "effect": "deny"}]})")));
  put("/kept/a", "one");
  ToolAnswer answer = call("rename", {{"from", "/kept"}, {"to", "/mem/working/kept"}});
  ASSERT_TRUE(answer.error.has_value());
  EXPECT_NE(answer.error->message.find("was copied to"), std::string::npos) << answer.error->message;
  EXPECT_EQ(content_of("/kept/a"), "one");
  EXPECT_EQ(content_of("/mem/working/kept/a"), "one");
}

TEST_F(FileTools, ARefusalSaysWhetherTheUserWasAsked) {
  ToolContext context{.agent = *agent_,
                      .names = *names_,
                      .view = *view_,
                      .clock = clock_,
                      .session = "s",
                      .is_read_only = false,
                      .is_cancelled = &is_cancelled_,
                      .progress = {}};
  for (Code code : {Code::kBusy, Code::kUnavailable}) {
    context.ask = [code](const ConsentQuestion&) -> Result<Consent> { return Error(code, "the reason"); };
    std::string message(check_consent(context, {.text = "Remove all?", .state = ""}).error().message());
    std::string_view expected = code == Code::kBusy ? "could not be asked" : "did not answer";
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

TEST_F(FileTools, NamesThatAreNotUtf8AreReachedByTheirUri) {
  put("/d/bad\xff%name", "found");
  std::string uri = call("readdir", {{"path", "/d"}}).structured["entries"][0]["uri"];
  EXPECT_EQ(uri, "vfs://a/d/bad%FF%25name");
  EXPECT_EQ(call("read_file", {{"path", uri}}).text, "found");
  EXPECT_EQ(call("find", {{"pattern", "bad*"}}).structured["matches"][0]["uri"], uri);
  EXPECT_EQ(call("grep", {{"pattern", "found"}, {"path", "/d"}}).structured["matches"][0]["uri"], uri);
  call("rename", {{"from", uri}, {"to", "/good"}});
  EXPECT_EQ(content_of("/good"), "found");
  EXPECT_FALSE(call("readdir", {{"path", "/d"}}).structured["entries"].contains("uri"));
  for (std::string_view wrong : {"vfs://other/good", "vfs://a/go%2", "vfs://", "vfs://a/go%00od"}) {
    EXPECT_EQ(error_type("read_file", {{"path", wrong}}), "invalid_argument") << wrong;
  }
}

TEST_F(FileTools, WhatIsTooLargeToBeWrittenIsNotToBeReadInParts) {
  ASSERT_OK(write_file(agent_->fs(), "/policy/active.json",
                       as_bytes(R"({"version": 1, "limits": {"file_bytes": 10}, "rules": []})")));
  ToolAnswer answer = call("write_file", {{"path", "/a"}, {"content", "more than ten bytes"}});
  ASSERT_TRUE(answer.error.has_value());
  EXPECT_EQ(answer.error->next_action_hint.find("offset"), std::string::npos) << answer.error->next_action_hint;
}

TEST_F(FileTools, ACursorOfSomethingElseIsRefused) {
  put("/d/a", "x");
  for (std::string_view other : {"/etc/passwd", "zz", "../..", "/dd"}) {
    std::string cursor = encode_base64(as_bytes(other));
    EXPECT_EQ(error_type("find", {{"path", "/d"}, {"cursor", cursor}}), "invalid_argument") << other;
    EXPECT_EQ(error_type("grep", {{"path", "/d"}, {"pattern", "x"}, {"cursor", cursor}}), "invalid_argument") << other;
  }
  EXPECT_EQ(error_type("readdir", {{"path", "/d"}, {"cursor", encode_base64(as_bytes("/d/a"))}}), "invalid_argument");
}

}  // namespace
}  // namespace warren
