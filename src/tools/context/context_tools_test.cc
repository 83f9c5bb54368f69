// The tools on items, called as a door calls them.
#include <atomic>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "backends/blob/memory_blobs.h"
#include "base/path.h"
#include "context/search.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "tools/schema.h"
#include "tools/tool.h"

namespace warren {
namespace {

class ContextToolsTest : public ::testing::Test {
 protected:
  ContextToolsTest() {
    Store::open(file(), {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_).value().reset();
    open();
  }
  std::string file() const { return dir_.file("a.db"); }
  void open(OpenMode mode = OpenMode::kReadWrite, Space space = Space::kUser) {
    index_.reset();
    view_.reset();
    names_.reset();
    agent_.reset();
    agent_ = Agent::open({.id_or_path = file(), .mode = mode, .durability = Durability::kProcess}, clock_).value();
    names_ = AgentNamespace::open(*agent_, {}, clock_).value();
    view_ = (*names_)->view({.agent = "a", .space = space, .door = "test", .session = {}});
  }

  ToolAnswer answer(std::string_view tool, const Json& arguments) {
    ToolContext context{.agent = *agent_,
                        .names = *names_,
                        .view = *view_,
                        .clock = clock_,
                        .session = "s1",
                        .is_read_only = is_read_only_,
                        .is_cancelled = &is_cancelled_,
                        .last_document = last_document_};
    if (has_index_) context.open_index = [this] { return open_index(); };
    return call_tool(context, *find_tool(tool), arguments);
  }
  Result<ContextIndex*> open_index() {
    if (!index_) index_ = WARREN_TRY(ContextIndex::open(*agent_, {}, clock_));
    return index_.get();
  }
  // The structured answer, which must fit the tool's output schema.
  Json call(std::string_view tool, const Json& arguments) {
    ToolAnswer got = answer(tool, arguments);
    EXPECT_FALSE(got.error.has_value()) << tool << ": " << (got.error ? got.error->message : "");
    if (got.error) return Json::object();
    EXPECT_EQ(find_schema_problem(find_tool(tool)->output_schema(), got.structured), std::nullopt) << tool;
    return got.structured;
  }
  ToolError fail(std::string_view tool, const Json& arguments) {
    ToolAnswer got = answer(tool, arguments);
    EXPECT_TRUE(got.error.has_value()) << tool << ": " << dump_json(got.structured);
    return got.error.value_or(ToolError{});
  }
  std::string fail_type(std::string_view tool, const Json& arguments) { return fail(tool, arguments).type; }

  std::string write(std::string_view ref, std::string_view content) {
    Json made = call("context_write", {{"path", ref}, {"content", content}, {"on_conflict", "overwrite"}});
    return made.value("id", "");
  }
  std::string read(std::string_view ref) {
    return call("context_read", {{"path", ref}}).value("content", std::string("?"));
  }
  // At the drive "shared".
  void mount_drive(std::uint64_t bytes_max = MemoryBlobs::kTotalBytes) {
    blobs_ = std::make_unique<MemoryBlobs>(clock_, bytes_max);
    ASSERT_OK(make_dirs(agent_->fs(), "/context"));
    view_.reset();
    names_.reset();
    names_ = AgentNamespace::open(*agent_, {.stores = {{.path = "/context/shared", .store = *blobs_}}}, clock_).value();
    view_ = (*names_)->view({.agent = "a", .space = Space::kUser, .door = "test", .session = {}});
  }
  // As through a mount: behind the tools' back.
  void put(std::string_view path, std::string_view content) {
    ASSERT_OK(write_file(agent_->fs(), path, as_bytes(content)));
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  bool is_read_only_ = false;
  std::atomic<bool> is_cancelled_ = false;
  LastDocument* last_document_ = nullptr;
  bool has_index_ = true;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<MemoryBlobs> blobs_;
  std::unique_ptr<AgentNamespace> names_;
  std::unique_ptr<NamespaceView> view_;
  std::unique_ptr<ContextIndex> index_;
};

TEST_F(ContextToolsTest, ADocumentIsTakenApartOnceForAllItsPages) {
  LastDocument last;
  last_document_ = &last;
  write("agent:/page.html", "<p>one</p><p>two</p>");
  auto line = [&](int number) {
    Json asked{{"path", "agent:/page.html"}, {"extract", true}, {"offset", number}, {"limit", 1}};
    return call("context_read", asked).value("content", std::string("?"));
  };
  EXPECT_EQ(line(1), "one\n");
  EXPECT_EQ(last.text, "one\n\ntwo\n");
  last.text = "kept 1\nkept 2\n";
  EXPECT_EQ(line(2), "kept 2\n");
  write("agent:/page.html", "<p>three</p>");  // another content
  EXPECT_EQ(line(1), "three\n");
}

TEST_F(ContextToolsTest, EveryToolIsDescribedByWhatIsChecked) {
  std::string last;
  for (const Tool* tool : all_tools()) {
    for (const Json& schema : {tool->input_schema(), tool->output_schema()}) {
      EXPECT_EQ(find_unknown_keyword(schema), std::nullopt) << tool->name;
      EXPECT_EQ(schema.at("type"), "object") << tool->name;
    }
    EXPECT_FALSE(tool->title.empty() || tool->description.empty()) << tool->name;
    EXPECT_EQ(find_tool(tool->name), tool);
  }
  EXPECT_EQ(find_tool("context"), nullptr);
}

TEST_F(ContextToolsTest, ACancelledCopyOrDeleteChangesNothing) {
  write("agent:/dir/a.md", "one\n");
  is_cancelled_ = true;
  EXPECT_EQ(fail_type("context_copy", {{"path", "agent:/dir"}, {"to_path", "/copy"}}), "unavailable");
  EXPECT_EQ(fail_type("context_delete", {{"path", "agent:/dir"}, {"recursive", true}}), "unavailable");
  is_cancelled_ = false;
  EXPECT_EQ(read("agent:/dir/a.md"), "one\n");
  EXPECT_EQ(fail_type("context_read", {{"path", "agent:/copy/a.md"}}), "not_found");
  call("context_delete", {{"path", "agent:/dir"}, {"recursive", true}});
  EXPECT_EQ(fail_type("context_read", {{"path", "agent:/dir/a.md"}}), "not_found");
}

TEST_F(ContextToolsTest, ManyShortTextsOfACallAreCutInTheTrail) {
  Json edits = Json::array();
  for (int i = 0; i < 1000; ++i) edits.push_back({{"old_text", std::string(1000, 'a')}, {"new_text", "b"}});
  answer("edit_file", {{"path", "/none"}, {"edits", edits}});
  Json parameters = parse_json(*agent_->tools().list().value()[0].parameters).value();
  EXPECT_LT(dump_json(parameters).size(), 65536U);
  EXPECT_EQ(parameters["path"], "/none");
}

TEST_F(ContextToolsTest, WhatIsNestedDeeplyStaysReadableInTheTrail) {
  std::string deep = std::string(500, '[') + std::string(500, ']');
  ASSERT_OK(agent_->kv().set("deep", deep));
  call("kv_get", {{"key", "deep"}});
  ToolCall last = agent_->tools().list().value()[0];
  ASSERT_TRUE(last.result.has_value());
  EXPECT_OK(parse_json(*last.result));
  EXPECT_NE(last.result->find("nested deeper"), std::string::npos);
}

TEST_F(ContextToolsTest, ACallIsInTheTrailWithItsArgumentsResultAndSession) {
  write("agent:/a.md", "one\n");
  fail("context_read", {{"path", "agent:/b.md"}});
  fail("context_read", {{"pth", "x"}});
  auto calls = agent_->tools().list().value();
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[2].name, "context_write");
  EXPECT_EQ(calls[2].status, CallStatus::kSuccess);
  EXPECT_EQ(parse_json(*calls[2].parameters).value()["content"], "one\n");
  EXPECT_EQ(parse_json(*calls[2].result).value()["ref"], "agent:/a.md");
  EXPECT_EQ(calls[2].details.session, "s1");
  EXPECT_EQ(calls[1].error, "not_found: no item at agent:/b.md");
  EXPECT_TRUE(calls[0].error->starts_with("invalid_argument: context_read: unknown argument 'pth'")) << *calls[0].error;
}

TEST_F(ContextToolsTest, ALongTextIsCutInTheTrailAndNotInTheItem) {
  std::string text(100'000, 'x');
  write("agent:/long", text);
  EXPECT_EQ(read("agent:/long").size(), text.size());
  for (const ToolCall& call : agent_->tools().list().value()) {
    EXPECT_LT(call.parameters->size() + call.result.value_or("").size(), 10'000U) << call.name;
  }
}

TEST_F(ContextToolsTest, WritingMakesAnItemOnceAndReplacesItOnlyWhenAsked) {
  Json made = call("context_write", {{"path", "/notes/a.md"}, {"content", "# A\nb"}});
  EXPECT_EQ(made["ref"], "agent:/notes/a.md");
  EXPECT_EQ(made["created"], true);
  EXPECT_EQ(made["lines"], 2);
  EXPECT_EQ(made["mime"], "text/markdown");
  EXPECT_EQ(made["tree"], "agent:/notes\n└── a.md\n");
  ToolError taken = fail("context_write", {{"path", "/notes/a.md"}, {"content", "x"}});
  EXPECT_EQ(taken.type, "already_exists");
  EXPECT_NE(taken.next_action_hint.find("\"on_conflict\""), std::string::npos);
  EXPECT_EQ(read("agent:/notes/a.md"), "# A\nb");
  Json again = call("context_write", {{"path", "/notes/a.md"}, {"content", ""}, {"on_conflict", "overwrite"}});
  EXPECT_EQ(again["id"], made["id"]);
  EXPECT_EQ(again["created"], false);
  EXPECT_EQ(again["lines"], 0);
}

TEST_F(ContextToolsTest, AnExpectedRevisionPreventsALostUpdate) {
  Json made = call("context_write", {{"path", "agent:/a"}, {"content", "one\n"}});
  std::string revision = made["revision"];
  EXPECT_EQ(call("context_read", {{"path", "agent:/a"}})["revision"], revision);
  put("/context/agent/a", "two\n");
  Json patch = Json::array({{{"start_line", 1}, {"end_line", 1}, {"content", "three\n"}}});
  EXPECT_EQ(fail_type("context_edit", {{"path", "agent:/a"}, {"patches", patch}, {"expected_revision", revision}}),
            "conflict");
  EXPECT_EQ(fail_type("context_write", {{"path", "agent:/a"}, {"content", "x"}, {"expected_revision", revision}}),
            "conflict");
  EXPECT_EQ(read("agent:/a"), "two\n");
  std::string now = call("context_info", {{"path", "agent:/a"}})["revision"];
  Json edited = call("context_edit", {{"path", "agent:/a"}, {"patches", patch}, {"expected_revision", now}});
  EXPECT_EQ(edited["previous_revision"], now);
  EXPECT_EQ(read("agent:/a"), "three\n");
}

TEST_F(ContextToolsTest, ReadingIsByLinesInPages) {
  std::string text;
  for (int line = 1; line <= 5000; ++line) text += fmt::format("line {}\n", line);
  write("disk:/long.txt", text);
  Json page = call("context_read", {{"drive", "disk"}, {"path", "/long.txt"}, {"offset", 3}, {"limit", 2}});
  EXPECT_EQ(page["content"], "line 3\nline 4\n");
  EXPECT_EQ(page["next_offset"], 5);
  EXPECT_EQ(page["total_lines"], 5000);
  Json first = call("context_read", {{"path", "disk:/long.txt"}});
  EXPECT_EQ(first["lines"], 2000);
  EXPECT_EQ(first["next_offset"], 2001);
  Json last = call("context_read", {{"path", "disk:/long.txt"}, {"offset", 4999}});
  EXPECT_EQ(last["content"], "line 4999\nline 5000\n");
  EXPECT_EQ(last["next_offset"], nullptr);
  EXPECT_EQ(fail_type("context_read", {{"path", "disk:/long.txt"}, {"offset", 5001}}), "invalid_argument");
  EXPECT_EQ(fail_type("context_read", {{"path", "disk:/long.txt"}, {"offset", 0}}), "invalid_argument");
}

TEST_F(ContextToolsTest, ALineLongerThanAPageIsReadInPartsWithoutCuttingCharacters) {
  std::string text = "x";
  for (int i = 0; i < 200'000; ++i) text += "\xe2\x82\xac";  // €
  text += "\nend";
  write("disk:/wide", text);
  std::string all;
  Json arguments{{"path", "disk:/wide"}};
  for (int pages = 0; pages < 10; ++pages) {
    Json page = call("context_read", arguments);
    all += page["content"].get<std::string>();
    if (page["next_offset"].is_null()) break;
    arguments["offset"] = page["next_offset"];
    arguments["column"] = page["next_column"];
  }
  EXPECT_TRUE(all == text) << all.size();
}

TEST_F(ContextToolsTest, AnEmptyItemHasNoLinesAnywhere) {
  write("agent:/empty", "");
  EXPECT_EQ(call("context_read", {{"path", "agent:/empty"}})["total_lines"], 0);
  EXPECT_EQ(call("context_info", {{"path", "agent:/empty"}})["lines"], 0);
  EXPECT_EQ(call("context_count_lines", {{"path", "agent:/empty"}})["lines"], 0);
  Json patch = Json::array({{{"start_line", 1}, {"end_line", 0}, {"content", "one"}}});
  EXPECT_EQ(call("context_edit", {{"path", "agent:/empty"}, {"patches", patch}})["lines"], 1);
}

TEST_F(ContextToolsTest, BytesAreKeptAndHaveNoText) {
  call("context_write", {{"path", "agent:/p.png"}, {"content", "iVBORw0KGgoA/w=="}, {"encoding", "base64"}});
  for (std::string_view tool : {"context_read", "context_count_lines"}) {
    ToolError error = fail(tool, {{"path", "agent:/p.png"}});
    EXPECT_EQ(error.type, "no_text_content") << tool;
  }
  Json info = call("context_info", {{"path", "agent:/p.png"}});
  EXPECT_EQ(info["mime"], "image/png");
  EXPECT_EQ(info["size_bytes"], 10);
  EXPECT_EQ(info["lines"], nullptr);
  Json patch = Json::array({{{"start_line", 1}, {"end_line", 1}, {"content", "x"}}});
  EXPECT_EQ(fail_type("context_edit", {{"path", "agent:/p.png"}, {"patches", patch}}), "no_text_content");
  EXPECT_EQ(fail_type("context_write", {{"path", "agent:/q"}, {"content", "%%%"}, {"encoding", "base64"}}),
            "invalid_argument");
}

TEST_F(ContextToolsTest, PatchesAreAppliedTogetherOrNotAtAll) {
  write("agent:/a", "1\r\n2\r\n3");
  Json good{{"start_line", 1}, {"end_line", 1}, {"content", "one\n"}};
  auto edit = [&](Json second) {
    return Json{{"path", "agent:/a"}, {"patches", Json::array({good, std::move(second)})}};
  };
  ToolError range = fail("context_edit", edit({{"start_line", 4}, {"end_line", 4}, {"content", "x"}}));
  EXPECT_EQ(range.type, "patch_out_of_range");
  EXPECT_EQ(range.message, "patches[1] is for lines 4 to 4, but agent:/a has 3 lines");
  EXPECT_EQ(fail_type("context_edit", edit({{"start_line", 1}, {"end_line", 2}, {"content", "x"}})), "patch_overlap");
  EXPECT_EQ(read("agent:/a"), "1\r\n2\r\n3");
  call("context_edit", edit({{"start_line", 3}, {"end_line", 3}, {"content", "three\nfour\n"}}));
  EXPECT_EQ(read("agent:/a"), "one\r\n2\r\nthree\r\nfour");
}

TEST_F(ContextToolsTest, WhatIsMissingIsAnsweredWithTheNearestItemsAndANextCall) {
  for (const char* name : {"readme.md", "guide.md", "architecture.txt", "x1", "x2", "x3", "x4"}) {
    write(fmt::format("disk:/notes/{}", name), "x");
  }
  ToolError error = fail("context_read", {{"drive", "disk"}, {"path", "/notes/architecture.md"}});
  EXPECT_EQ(error.type, "not_found");
  EXPECT_EQ(error.message, "no item at disk:/notes/architecture.md");
  EXPECT_TRUE(error.next_action_hint.starts_with("Nearby items under disk:/notes: disk:/notes/architecture.txt, "))
      << error.next_action_hint;
  EXPECT_TRUE(
      error.next_action_hint.ends_with("Call context_tree({\"drive\":\"disk\",\"path\":\"/notes\"}) to see more."))
      << error.next_action_hint;
  EXPECT_EQ(std::ranges::count(error.next_action_hint, ','), 5);  // four between five items, one in the call
  ToolError deep = fail("context_info", {{"drive", "disk"}, {"path", "/notes/a/b/c.md"}});
  EXPECT_NE(deep.next_action_hint.find("Nearby items under disk:/notes:"), std::string::npos) << deep.next_action_hint;
  ToolError drive = fail("context_read", {{"drive", "github"}, {"path", "/a"}});
  EXPECT_NE(drive.next_action_hint.find("Drives: disk."), std::string::npos) << drive.next_action_hint;
  ToolError none = fail("context_read", {{"path", "/a"}});
  EXPECT_EQ(none.type, "invalid_argument");
}

TEST_F(ContextToolsTest, AnItemIsFoundByDriveAndPathByRefByAddressAndById) {
  std::string id = write("url:/https://example.com/post", "hello\n");
  for (const Json& arguments :
       {Json{{"drive", "url"}, {"path", "/https://example.com/post"}}, Json{{"path", "url:/https://example.com/post"}},
        Json{{"path", "https://example.com/post#top"}}, Json{{"path", id}}, Json{{"drive", "ignored"}, {"path", id}}}) {
    EXPECT_EQ(call("context_read", arguments)["content"], "hello\n") << dump_json(arguments);
    EXPECT_EQ(call("context_exists", arguments)["kind"], "item");
  }
  EXPECT_EQ(call("context_exists", {{"path", "0190163d-8694-739b-aea5-966c26f8ad91"}})["exists"], false);
  EXPECT_EQ(fail_type("context_read", {{"path", "0190163d-8694-739b-aea5-966c26f8ad91"}}), "not_found");
}

TEST_F(ContextToolsTest, AMoveThroughAnyDoorKeepsTheIdAndACopyHasItsOwn) {
  std::string id = write("agent:/a/x.md", "x\n");
  ASSERT_OK(rename(agent_->fs(), "/context/agent/a", "/context/agent/b"));  // a directory, as in a mount
  EXPECT_EQ(call("context_info", {{"path", "agent:/b/x.md"}})["id"], id);
  EXPECT_EQ(call("context_read", {{"path", id}})["ref"], "agent:/b/x.md");
  Json moved = call("context_move", {{"path", id}, {"to_drive", "disk"}, {"to_path", "/y/z.md"}});
  EXPECT_EQ(moved["ref"], "disk:/y/z.md");
  EXPECT_EQ(moved["id"], id);
  EXPECT_EQ(call("context_read", {{"path", id}})["ref"], "disk:/y/z.md");
  Json copied = call("context_copy", {{"path", "disk:/y"}, {"to_path", "agent:/w"}});
  EXPECT_EQ(copied["items"], 1);
  EXPECT_NE(call("context_info", {{"path", "agent:/w/z.md"}})["id"], id);
  EXPECT_EQ(read("agent:/w/z.md"), "x\n");
  call("context_move", {{"path", "disk:/y"}, {"to_path", "disk:/deep/er"}});
  EXPECT_EQ(call("context_read", {{"path", id}})["ref"], "disk:/deep/er/z.md");
}

TEST_F(ContextToolsTest, SavingByRenamingANewFileOverItKeepsTheId) {
  std::string id = write("agent:/a.md", "old\n");
  put("/context/agent/.a.md.tmp", "new\n");
  ASSERT_OK(rename(agent_->fs(), "/context/agent/.a.md.tmp", "/context/agent/a.md"));
  EXPECT_EQ(call("context_read", {{"path", id}})["content"], "new\n");
  EXPECT_EQ(call("context_info", {{"path", "agent:/a.md"}})["id"], id);
}

TEST_F(ContextToolsTest, SavingOverAnItemThatWasMovedUnseenKeepsTheId) {
  std::string id = write("agent:/a.md", "old\n");
  ASSERT_OK(rename(agent_->fs(), "/context/agent/a.md", "/context/agent/b.md"));
  put("/tmp.md", "new\n");
  ASSERT_OK(rename(agent_->fs(), "/tmp.md", "/context/agent/b.md"));
  EXPECT_EQ(call("context_info", {{"path", "agent:/b.md"}})["id"], id);
  EXPECT_EQ(call("context_read", {{"path", id}})["content"], "new\n");
  std::string other = write("agent:/c.md", "an item of its own\n");
  ASSERT_OK(rename(agent_->fs(), "/context/agent/c.md", "/context/agent/b.md"));
  EXPECT_EQ(call("context_info", {{"path", "agent:/b.md"}})["id"], other);
  EXPECT_EQ(call("context_exists", {{"path", id}})["exists"], false);  // not the one that replaced it
  EXPECT_EQ(fail_type("context_delete", {{"path", id}}), "not_found");
  EXPECT_EQ(call("context_read", {{"path", other}})["content"], "an item of its own\n");
}

TEST_F(ContextToolsTest, RestoringAPathBringsTheIdOfItsCheckpointBack) {
  std::string id = write("agent:/a.md", "old\n");
  call("checkpoint", {{"name", "then"}});
  Json restore{{"checkpoint", "then"}, {"paths", {"/context/agent/a.md"}}};
  call("context_delete", {{"path", "agent:/a.md"}});
  call("restore", restore);
  EXPECT_EQ(call("context_info", {{"path", "agent:/a.md"}})["id"], id);
  call("context_delete", {{"path", "agent:/a.md"}});
  EXPECT_NE(write("agent:/a.md", "another item\n"), id);
  call("restore", {{"checkpoint", "then"}, {"paths", {"/context"}}});
  EXPECT_EQ(call("context_info", {{"path", "agent:/a.md"}})["id"], id);
  EXPECT_EQ(read("agent:/a.md"), "old\n");
  call("context_move", {{"path", "agent:/a.md"}, {"to_path", "/b.md"}});
  call("restore", restore);
  EXPECT_EQ(call("context_info", {{"path", "agent:/b.md"}})["id"], id);  // it is there: what came back is another one
  EXPECT_NE(call("context_info", {{"path", "agent:/a.md"}})["id"], id);
}

TEST_F(ContextToolsTest, ItemsAreCopiedAndMovedBetweenMounts) {
  mount_drive();
  std::string id = write("agent:/dir/a.md", "a\n");
  write("agent:/dir/deep/b.md", "b\n");
  EXPECT_EQ(call("context_copy", {{"path", "agent:/dir"}, {"to_path", "shared:/x/dir"}})["items"], 2);
  EXPECT_EQ(read("shared:/x/dir/deep/b.md"), "b\n");
  EXPECT_EQ(call("context_move", {{"path", "agent:/dir/a.md"}, {"to_path", "shared:/y/a.md"}})["id"], nullptr);
  EXPECT_EQ(read("shared:/y/a.md"), "a\n");
  EXPECT_EQ(fail_type("context_read", {{"path", "agent:/dir/a.md"}}), "not_found");
  Json back = call("context_move", {{"path", "shared:/x/dir"}, {"to_path", "agent:/back"}});
  EXPECT_EQ(back["items"], 2);
  EXPECT_TRUE(call("context_move", {{"path", "shared:/y/a.md"}, {"to_path", "agent:/y.md"}})["id"].is_string());
  call("context_move", {{"path", "agent:/y.md"}, {"to_path", "shared:/y/a.md"}});
  EXPECT_EQ(read("agent:/back/deep/b.md"), "b\n");
  EXPECT_EQ(call("context_exists", {{"path", "shared:/x/dir"}})["exists"], false);
  EXPECT_EQ(fail_type("context_copy", {{"path", "shared:/y/a.md"}, {"to_path", "agent:/back/a.md"}}), "already_exists");
}

TEST_F(ContextToolsTest, ACopyToAMountThatFailsLeavesNothing) {
  mount_drive(3000);
  write("agent:/dir/a.md", "small\n");
  write("agent:/dir/b.md", std::string(10'000, 'b'));
  for (std::string_view tool : {"context_copy", "context_move"}) {
    fail(tool, {{"path", "agent:/dir"}, {"to_path", "shared:/x/dir"}});
    EXPECT_EQ(call("context_exists", {{"path", "shared:/x"}})["exists"], false) << tool;
    EXPECT_EQ(read("agent:/dir/a.md"), "small\n") << tool;
  }
}

// Takes no value whose key ends in "b.md"; something happens when it is put.
class PickyBlobs final : public BlobStore {
 public:
  explicit PickyBlobs(Clock& clock) : inner(clock) {}

  std::string name() const override { return "picky:"; }
  BlobAbilities abilities() const override { return inner.abilities(); }
  Result<std::optional<Blob>> get(std::string_view key) override { return inner.get(key); }
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override {
    return inner.get_range(key, offset, length);
  }
  Result<std::optional<BlobInfo>> find(std::string_view key) override { return inner.find(key); }
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options) override {
    if (!key.ends_with("b.md")) return inner.put(key, content, options);
    meanwhile();
    return Error(Code::kTooLarge, "it is not taken");
  }
  Result<bool> remove(std::string_view key) override { return inner.remove(key); }
  Result<BlobPage> list(const ListOptions& options) override { return inner.list(options); }
  Status apply(std::span<const BlobChange> changes) override { return inner.apply(changes); }

  MemoryBlobs inner;
  std::function<void()> meanwhile = [] {};
};

TEST_F(ContextToolsTest, ACopyThatFailsLeavesWhatOthersWroteToIt) {
  PickyBlobs blobs(clock_);
  ASSERT_OK(make_dirs(agent_->fs(), "/context"));
  view_.reset();
  names_.reset();
  names_ = AgentNamespace::open(*agent_, {.stores = {{.path = "/context/shared", .store = blobs}}}, clock_).value();
  view_ = (*names_)->view({.agent = "a", .space = Space::kUser, .door = "test", .session = {}});
  write("agent:/dir/a.md", "one\n");
  write("agent:/dir/aa.md", "two\n");
  write("agent:/dir/b.md", "three\n");
  for (std::string_view tool : {"context_copy", "context_move"}) {
    std::string target = fmt::format("/{}", tool);
    blobs.meanwhile = [&] { ASSERT_OK(blobs.inner.put(target.substr(1) + "/a.md", as_bytes("1st\n"), {})); };
    ToolError error = fail(tool, {{"path", "agent:/dir"}, {"to_path", "shared:" + target}});
    EXPECT_NE(error.message.find(target + "/a.md"), std::string::npos) << error.message;
    EXPECT_EQ(read("shared:" + target + "/a.md"), "1st\n");
    EXPECT_EQ(call("context_exists", {{"path", "shared:" + target + "/aa.md"}})["exists"], false);
    EXPECT_EQ(read("agent:/dir/a.md"), "one\n");
  }
  view_.reset();
  names_.reset();
}

TEST_F(ContextToolsTest, NothingIsDeletedForAMountThatStays) {
  mount_drive();
  call("context_write", {{"path", "shared:/a.md"}, {"content", "precious\n"}});
  ToolError error = fail("context_delete", {{"path", "shared:/"}, {"recursive", true}});
  EXPECT_EQ(error.type, "busy");
  EXPECT_NE(error.message.find("nothing was changed"), std::string::npos) << error.message;
  for (std::string_view path : {"/context/shared", "/context"}) {
    error = fail("remove", {{"path", path}, {"recursive", true}});
    EXPECT_EQ(error.type, "busy") << path;
    EXPECT_EQ(error.next_action_hint.find("again"), std::string::npos) << error.next_action_hint;
  }
  EXPECT_EQ(read("shared:/a.md"), "precious\n");
}

TEST_F(ContextToolsTest, ADirectoryWithALinkIsNotMovedToAMount) {
  mount_drive();
  write("agent:/dir/a.md", "a\n");
  ASSERT_OK(make_symlink(agent_->fs(), "a.md", "/context/agent/dir/link"));
  EXPECT_EQ(fail_type("context_move", {{"path", "agent:/dir"}, {"to_path", "shared:/dir"}}), "unsupported");
  EXPECT_EQ(read_link(agent_->fs(), "/context/agent/dir/link").value(), "a.md");
  EXPECT_EQ(call("context_exists", {{"path", "shared:/dir"}})["exists"], false);
}

TEST_F(ContextToolsTest, AMoveThatCannotRemoveAllNeverAdvisesAgainstTheCopy) {
  mount_drive();
  for (std::string name : {"a", "b", "c"}) call("context_write", {{"path", "shared:/kept/" + name}, {"content", name}});
  ASSERT_OK(write_file(agent_->fs(), "/policy/active.json",
                       as_bytes(R"({"version": 1, "rules": [{"path": "/context/shared/kept/b",
                                    "operation": ["delete"], "effect": "deny"}]})")));
  ToolError error = fail("context_move", {{"path", "shared:/kept"}, {"to_path", "agent:/kept"}});
  EXPECT_NE(error.message.find("could not be removed completely"), std::string::npos) << error.message;
  EXPECT_NE(error.next_action_hint.find("the copy is complete"), std::string::npos) << error.next_action_hint;
  for (std::string name : {"a", "b", "c"}) EXPECT_EQ(read("agent:/kept/" + name), name);
  EXPECT_EQ(read("shared:/kept/b"), "b");
}

TEST_F(ContextToolsTest, AnItemMovesBetweenPlacesWithDifferentRules) {
  ASSERT_OK(write_file(agent_->fs(), "/policy/active.json",
                       as_bytes(R"({"version": 1, "rules": [{"path": "/context/agent/to/**",
                                    "operation": ["delete"], "effect": "deny"}]})")));
  std::string id = write("agent:/dir/a.md", "a\n");
  std::string linked = write("agent:/dir/b.md", "b\n");
  ASSERT_OK(link(agent_->fs(), "/context/agent/dir/b.md", "/context/agent/other.md"));
  ASSERT_OK(make_symlink(agent_->fs(), "a.md", "/context/agent/dir/link"));
  EXPECT_EQ(call("context_move", {{"path", "agent:/dir"}, {"to_path", "agent:/to/dir"}})["items"], 2);
  EXPECT_EQ(call("context_info", {{"path", "agent:/to/dir/a.md"}})["id"], id);
  EXPECT_EQ(read("agent:/to/dir/b.md"), "b\n");
  EXPECT_EQ(read("agent:/other.md"), "b\n");
  EXPECT_NE(call("context_info", {{"path", "agent:/to/dir/b.md"}})["id"], linked);
  EXPECT_EQ(read_link(agent_->fs(), "/context/agent/to/dir/link").value(), "a.md");
  EXPECT_EQ(call("context_exists", {{"path", "agent:/dir"}})["exists"], false);
}

TEST_F(ContextToolsTest, AReferenceThatContradictsTheDriveIsRefused) {
  ToolError error = fail("context_write", {{"drive", "agent"}, {"path", "new:/cc"}, {"content", "x"}});
  EXPECT_EQ(error.type, "invalid_argument");
  EXPECT_NE(error.message.find("'new'"), std::string::npos) << error.message;
  EXPECT_EQ(call("context_exists", {{"path", "new:/cc"}})["exists"], false);
  EXPECT_EQ(call("context_write", {{"drive", "agent"}, {"path", "agent:/cc"}, {"content", "x"}})["ref"], "agent:/cc");
  EXPECT_EQ(fail_type("context_write", {{"drive", "agent"}, {"path", "agent:"}, {"content", "x"}}), "invalid_argument");
  EXPECT_EQ(fail_type("context_tree", {{"path", "agent:"}}), "invalid_argument");
}

TEST_F(ContextToolsTest, ADirectoryThatIsInTheWayIsNotOfferedToBeReplaced) {
  write("agent:/a/x", "x");
  write("agent:/b/y", "y");
  ToolError error = fail("context_copy", {{"path", "agent:/a"}, {"to_path", "agent:/b"}, {"on_conflict", "overwrite"}});
  EXPECT_EQ(error.type, "already_exists");
  EXPECT_EQ(error.next_action_hint.find("overwrite"), std::string::npos) << error.next_action_hint;
  error = fail("context_copy", {{"path", "agent:/a/x"}, {"to_path", "agent:/b/y"}});
  EXPECT_NE(error.next_action_hint.find("overwrite"), std::string::npos) << error.next_action_hint;
}

TEST_F(ContextToolsTest, AFileThatWasWrittenElsewhereIsAnItem) {
  put("/context/disk/dir/file.md", "# from a mount\n");
  Json info = call("context_info", {{"path", "disk:/dir/file.md"}});
  EXPECT_TRUE(info["id"].is_string());
  EXPECT_EQ(info["mime"], "text/markdown");
  EXPECT_EQ(call("context_read", {{"path", info["id"]}})["content"], "# from a mount\n");
  EXPECT_EQ(call("context_list_drives", Json::object())["drives"][0]["items"], 1);
}

TEST_F(ContextToolsTest, CopyAndMoveDoNotDestroyWhatIsThere) {
  write("agent:/a", "a");
  write("agent:/b", "b");
  write("agent:/dir/c", "c");
  for (std::string_view tool : {"context_copy", "context_move"}) {
    EXPECT_EQ(fail_type(tool, {{"path", "agent:/a"}, {"to_path", "/b"}}), "already_exists") << tool;
    EXPECT_EQ(fail_type(tool, {{"path", "agent:/a"}, {"to_path", "/dir"}, {"on_conflict", "overwrite"}}),
              "already_exists");
    EXPECT_EQ(fail_type(tool, {{"path", "agent:/dir"}, {"to_path", "/dir/sub"}}), "invalid_argument") << tool;
    EXPECT_EQ(fail_type(tool, {{"path", "agent:/a"}, {"to_path", "/a"}}), "invalid_argument") << tool;
    EXPECT_EQ(fail_type(tool, {{"path", "agent:/a"}, {"to_path", "/b/below"}}), "not_directory") << tool;
    EXPECT_EQ(fail_type(tool, {{"path", "agent:/none"}, {"to_path", "/c"}}), "not_found") << tool;
    EXPECT_EQ(fail_type(tool, {{"path", "agent:/"}, {"to_path", "/c"}}), "invalid_argument") << tool;
  }
  call("context_copy", {{"path", "agent:/a"}, {"to_path", "/b"}, {"on_conflict", "overwrite"}});
  EXPECT_EQ(read("agent:/b"), "a");
}

TEST_F(ContextToolsTest, DeletingADirectoryNeedsRecursive) {
  std::string id = write("agent:/dir/a", "a");
  write("agent:/dir/b/c", "c");
  ToolError error = fail("context_delete", {{"path", "agent:/dir"}});
  EXPECT_EQ(error.type, "is_directory");
  EXPECT_NE(error.next_action_hint.find("context_delete({\"drive\":\"agent\",\"path\":\"/dir\",\"recursive\":true})"),
            std::string::npos);
  EXPECT_EQ(call("context_delete", {{"path", "agent:/dir"}, {"recursive", true}})["items"], 2);
  EXPECT_EQ(call("context_exists", {{"path", id}})["exists"], false);
  EXPECT_EQ(fail_type("context_delete", {{"path", "agent:/dir"}}), "not_found");
}

TEST_F(ContextToolsTest, ATreeShowsDirectoriesFirstAndSaysWhatItLeavesOut) {
  for (int i = 0; i < 9; ++i) write(fmt::format("disk:/f{}", i), "x");
  write("disk:/zoo/ape", "x");
  write("disk:/zoo/deep/er/x", "x");
  Json tree = call("context_tree", {{"drive", "disk"}, {"max_items", 3}, {"max_depth", 2}});
  EXPECT_EQ(tree["tree"],
            "disk:/\n"
            "├── zoo/\n"
            "│   ├── deep/ (1 directory, 0 files)\n"
            "│   └── ape\n"
            "├── f0\n"
            "├── f1\n"
            "└── ... (+7 more)\n");
  EXPECT_EQ(tree["is_complete"], false);
  EXPECT_TRUE(tree["hint"].get<std::string>().starts_with("Not complete: 2 directories and 3 files shown"));
  Json whole = call("context_tree", {{"path", "disk:/zoo"}});
  EXPECT_EQ(whole["is_complete"], true);
  EXPECT_EQ(whole["hint"], "Complete: 2 directories and 2 files.");
  EXPECT_NE(call("context_tree", Json::object())["tree"].get<std::string>().find("disk:/  11 items"),
            std::string::npos);
  EXPECT_EQ(fail_type("context_tree", {{"path", "disk:/zoo/ape"}}), "not_directory");
}

TEST_F(ContextToolsTest, EveryEntryOfALargeDirectoryCanBeSeen) {
  for (int i = 0; i < 7; ++i) write(fmt::format("disk:/f{}", i), "x");
  write("disk:/zoo/ape", "x");
  std::vector<std::string> names;
  Json asked{{"path", "disk:/"}, {"max_depth", 1}, {"max_items", 3}};
  for (int page = 0; page < 3; ++page) {
    Json tree = call("context_tree", asked);
    for (const Json& entry : tree["entries"]) names.push_back(entry["name"]);
    EXPECT_EQ(tree["next_after"].is_null(), page == 2);
    if (page == 2) break;
    asked["after"] = tree["next_after"];
    std::string next =
        "context_tree(" +
        dump_json({{"drive", "disk"}, {"path", "/"}, {"max_depth", 1}, {"max_items", 3}, {"after", names.back()}}) +
        ")";
    EXPECT_NE(tree["hint"].get<std::string>().find(next), std::string::npos) << tree["hint"];
  }
  EXPECT_EQ(names, (std::vector<std::string>{"zoo", "f0", "f1", "f2", "f3", "f4", "f5", "f6"}));
  EXPECT_EQ(fail_type("context_tree", {{"path", "disk:/"}, {"after", "gone"}}), "not_found");
  Json most = call("context_tree", {{"path", "disk:/"}, {"max_depth", 1}, {"max_items", 1000}});
  EXPECT_EQ(most["hint"].get<std::string>().find("larger max_items"), std::string::npos);
}

TEST_F(ContextToolsTest, SizesAreBytes) {
  write("disk:/a", "\xe2\x82\xac");
  write("disk:/sub/b", "12345");
  Json size = call("context_dir_size", {{"drive", "disk"}});
  EXPECT_EQ(size["size_bytes"], 8);
  EXPECT_EQ(size["items"], 2);
  EXPECT_EQ(call("context_dir_size", {{"path", "disk:/sub"}})["size_bytes"], 5);
  EXPECT_EQ(fail_type("context_dir_size", {{"path", "disk:/none"}}), "not_found");
}

TEST_F(ContextToolsTest, HostileNamesAreRefusedOrTakenAsTheyAre) {
  for (const char* path : {"agent:/../x", "agent:/a/../../x", "Agent:/x"}) {
    EXPECT_EQ(fail_type("context_write", {{"drive", "no drive"}, {"path", path}, {"content", "x"}}), "invalid_argument")
        << path;
  }
  EXPECT_EQ(fail_type("context_write", {{"path", std::string("agent:/a\0b", 10)}, {"content", "x"}}),
            "invalid_argument");
  EXPECT_EQ(fail_type("context_write", {{"path", "agent:/" + std::string(300, 'x')}, {"content", "x"}}),
            "invalid_argument");
  EXPECT_EQ(fail_type("context_write", {{"path", "agent:/"}, {"content", "x"}}), "is_directory");
  for (const char* name : {"%", "_", "a%b", "'; DROP TABLE wr_item; --", "\xd0\xb0.md", "…", "a b", "*", "?", "[x]"}) {
    std::string ref = fmt::format("agent:/hostile/{}", name);
    std::string id = write(ref, name);
    EXPECT_EQ(call("context_read", {{"path", id}})["content"], name);
  }
  EXPECT_EQ(call("context_delete", {{"path", "agent:/hostile/%"}})["items"], 1);
  EXPECT_EQ(call("context_delete", {{"path", "agent:/hostile/_"}})["items"], 1);
  EXPECT_EQ(call("context_dir_size", {{"path", "agent:/hostile"}})["items"], 8);
}

TEST_F(ContextToolsTest, LinksInADriveAreNotFollowed) {
  put("/secret", "secret\n");
  write("disk:/dir/a", "a");
  ASSERT_OK(make_symlink(agent_->fs(), "/secret", "/context/disk/link"));
  ASSERT_OK(make_symlink(agent_->fs(), "/", "/context/disk/up"));
  for (const char* path : {"disk:/link", "disk:/up/secret", "disk:/up/context/disk/dir/a"}) {
    EXPECT_EQ(fail_type("context_read", {{"path", path}}), "denied") << path;
    EXPECT_EQ(fail_type("context_write", {{"path", path}, {"content", "x"}, {"on_conflict", "overwrite"}}), "denied");
    EXPECT_EQ(fail_type("context_delete", {{"path", path}, {"recursive", true}}), "denied") << path;
  }
  EXPECT_EQ(call("context_tree", {{"drive", "disk"}})["tree"], "disk:/\n└── dir/\n    └── a\n");
  call("context_copy", {{"path", "disk:/dir"}, {"to_path", "agent:/copy"}});
  EXPECT_EQ(*read_file(agent_->fs(), "/secret"), "secret\n");
}

TEST_F(ContextToolsTest, WhatIsReadOnlyIsReadAndNotChanged) {
  put("/context/disk/a", "a\n");
  is_read_only_ = true;
  Json got = call("context_read", {{"path", "disk:/a"}});
  EXPECT_EQ(got["content"], "a\n");
  EXPECT_EQ(got["id"], nullptr);
  EXPECT_EQ(fail_type("context_write", {{"path", "disk:/b"}, {"content", "x"}}), "read_only");
  EXPECT_EQ(agent_->tools().list().value().size(), 2U);
  is_read_only_ = false;
  open(OpenMode::kReadOnly);
  EXPECT_EQ(read("disk:/a"), "a\n");
  EXPECT_EQ(fail_type("context_delete", {{"path", "disk:/a"}}), "read_only");
  EXPECT_EQ(agent_->tools().list().value().size(), 2U);
}

TEST_F(ContextToolsTest, ThePolicyOfTheNamespaceHolds) {
  open(OpenMode::kReadWrite, Space::kKernel);
  write("disk:/private/a", "secret\n");
  ASSERT_OK(LivePolicy::replace(agent_->fs(), R"({"version": 1, "rules": [
    {"path": "/context/disk/private", "space": "user", "effect": "deny"}]})",
                                "a test", clock_));
  EXPECT_EQ(read("disk:/private/a"), "secret\n");
  open(OpenMode::kReadWrite, Space::kUser);
  EXPECT_EQ(fail_type("context_read", {{"path", "disk:/private/a"}}), "denied");
  EXPECT_EQ(fail_type("context_tree", {{"path", "disk:/private"}}), "denied");
  Json tree = call("context_tree", {{"drive", "disk"}});
  EXPECT_EQ(tree["tree"], "disk:/\n└── private/ (not to be listed)\n");
  EXPECT_EQ(tree["is_complete"], false);
  EXPECT_EQ(call("context_list_drives", Json::object())["drives"][0]["items"], 0);
  EXPECT_EQ(fail_type("context_delete", {{"path", "disk:/"}, {"recursive", true}}), "denied");
  EXPECT_EQ(fail_type("context_move", {{"path", "disk:/private/a"}, {"to_path", "agent:/a"}}), "denied");
  EXPECT_EQ(fail_type("context_copy", {{"path", "disk:/private"}, {"to_path", "agent:/b"}}), "denied");
  EXPECT_EQ(call("context_exists", {{"path", "agent:/b"}})["exists"], false);  // all or nothing
}

TEST_F(ContextToolsTest, SearchFindsPlacesInItemsThatTheCallerMayRead) {
  open(OpenMode::kReadWrite, Space::kKernel);
  write("disk:/a.md", "# Animals\n\nthe zebra has stripes\n");
  write("agent:/b.md", "a zebra crossing\n");
  write("disk:/private/c.md", "the secret zebra\n");
  ASSERT_OK(LivePolicy::replace(agent_->fs(), R"({"version": 1, "rules": [
    {"path": "/context/disk/private", "space": "user", "effect": "deny"}]})",
                                "a test", clock_));
  auto refs = [](const Json& found) {
    std::set<std::string> all;
    for (const Json& one : found["results"]) all.insert(one["ref"].get<std::string>());
    return all;
  };
  using Refs = std::set<std::string>;
  EXPECT_EQ(refs(call("search", {{"query", "zebra"}})), (Refs{"disk:/a.md", "agent:/b.md", "disk:/private/c.md"}));
  open(OpenMode::kReadWrite, Space::kUser);
  Json found = call("search", {{"query", "zebra"}});
  EXPECT_EQ(refs(found), (Refs{"disk:/a.md", "agent:/b.md"}));
  EXPECT_EQ(refs(call("context_search", {{"query", "zebra"}, {"drive", "disk"}})), Refs{"disk:/a.md"});
  EXPECT_EQ(refs(call("search", {{"pattern", "z[a-z]+a cross"}})), Refs{"agent:/b.md"});
  EXPECT_EQ(refs(call("search", {{"query", "zebra"}, {"path", "agent:/b.md"}})), Refs{"agent:/b.md"});
  Json nothing = call("search", {{"query", "xylophone"}, {"drive", "disk"}});
  EXPECT_TRUE(nothing["results"].empty());
  EXPECT_NE(nothing["hint"].get<std::string>().find("Nothing was found"), std::string::npos);
  EXPECT_EQ(fail_type("search", Json::object()), "invalid_argument");
  EXPECT_EQ(fail_type("search", {{"pattern", "("}}), "invalid_argument");
  EXPECT_EQ(fail_type("search", {{"query", "x"}, {"drive", "../x"}}), "invalid_argument");
  has_index_ = false;
  EXPECT_EQ(fail_type("search", {{"query", "zebra"}}), "unsupported");
}

TEST_F(ContextToolsTest, ASearchHasPagesAndTimesAndSaysThatThereIsNoEmbedder) {
  clock_.jump_to({.seconds = 1'767'225'600});  // 2026-01-01
  write("disk:/old.md", "zebra\n");
  clock_.advance_ns(std::int64_t{86'400} * 1'000'000'000);
  write("disk:/new.md", "zebra\n");
  auto refs = [&](Json arguments) {
    arguments["query"] = "zebra";
    std::vector<std::string> all;
    Json found = call("search", arguments);
    for (const Json& one : found["results"]) all.push_back(one["ref"]);
    return all;
  };
  using Refs = std::vector<std::string>;
  EXPECT_EQ(refs({{"since", "2026-01-01T12:00:00Z"}}), Refs{"disk:/new.md"});
  EXPECT_EQ(refs({{"until", "2026-01-01T12:00"}}), Refs{"disk:/old.md"});
  EXPECT_EQ(refs({{"since", "2026-01-01T12:00"}, {"until", "2026-01-01T13:00"}}), Refs{});
  ToolError wrong = fail("search", {{"query", "zebra"}, {"since", "yesterday"}});
  EXPECT_EQ(wrong.type, "invalid_argument");
  EXPECT_NE(wrong.message.find("'since'"), std::string::npos) << wrong.message;
  ToolAnswer first = answer("search", {{"query", "zebra"}, {"limit", 1}});
  EXPECT_EQ(first.structured["next_offset"], 1);
  EXPECT_NE(first.text.find("found by words alone"), std::string::npos) << first.text;
  EXPECT_NE(first.text.find("offset 1"), std::string::npos) << first.text;
  Json second = call("search", {{"query", "zebra"}, {"limit", 1}, {"offset", 1}});
  EXPECT_TRUE(second["next_offset"].is_null());
  EXPECT_NE(second["results"][0]["ref"], first.structured["results"][0]["ref"]);
}

TEST_F(ContextToolsTest, WR71_ForgedRowsAreNotBelieved) {
  std::string id = write("agent:/a", "a\n");
  Database& database = agent_->store().database();
  ASSERT_OK(database.execute("UPDATE wr_item SET id = 'x'' OR 1=1', path = '/etc/passwd'"));
  EXPECT_EQ(fail_type("context_read", {{"path", id}}), "not_found");
  EXPECT_TRUE(call("context_info", {{"path", "agent:/a"}})["id"].is_string());
  ASSERT_OK(database.execute("DROP TABLE wr_item"));
  EXPECT_TRUE(call("context_info", {{"path", "agent:/a"}})["id"].is_string());
}

}  // namespace
}  // namespace warren
