#include "mcp/session.h"

#include <condition_variable>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fs/path_ops.h"
#include "mcp/service.h"
#include "testing/matchers.h"

namespace warren::mcp {
namespace {

class Collected final : public Outlet {
 public:
  void send(const Json& message) override {
    std::lock_guard lock(mutex_);
    messages_.push_back(message);
    arrived_.notify_all();
  }

  std::vector<Json> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

  // The first message that has this method; waits for it.
  Json wait_for(const std::string& method) {
    std::unique_lock lock(mutex_);
    for (;;) {
      for (const Json& one : messages_) {
        if (one.value("method", "") == method) return one;
      }
      if (arrived_.wait_for(lock, std::chrono::seconds(30)) == std::cv_status::timeout) return nullptr;
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Json> messages_;  // under mutex_
};

class McpSession : public ::testing::Test {
 protected:
  void SetUp() override {
    agent_ = Agent::open({.id_or_path = ":memory:"}, clock_).value();
    names_ = AgentNamespace::open(*agent_, {}, clock_).value();
    view_ = (*names_)->view({.agent = names_->agent_id(), .space = Space::kUser, .door = "mcp", .session = {}});
    open({});
  }

  void open(ServiceOptions options) {
    if (options.tools.empty()) options.tools = select_tools(std::nullopt, {.reach = &options.reach}).value();
    options.version = "0";
    session_.reset();
    subscriptions_.reset();
    service_ = std::make_unique<Service>(*agent_, *names_, *view_, clock_, std::move(options));
    subscriptions_ = std::make_unique<Subscriptions>(*service_);
    session_ = std::make_unique<Session>(*service_, *subscriptions_, Session::Options{.run = {}, .notices = outlet_});
  }

  std::vector<Json> send(std::string_view text) {
    session_->receive(text, outlet_);
    return outlet_->take();
  }

  Json ask(std::string_view method, Json params = Json::object()) {
    Json message{{"jsonrpc", "2.0"}, {"id", ++id_}, {"method", method}, {"params", std::move(params)}};
    std::vector<Json> got = send(dump_json(message));
    for (const Json& one : got) {
      if (one.value("id", Json()) == id_) return one;
    }
    return nullptr;
  }

  Json begin(std::string_view revision = "2025-11-25") {
    return ask("initialize", {{"protocolVersion", revision}, {"capabilities", Json::object()}});
  }

  Json ask_stateless(std::string_view method, Json params = Json::object()) {
    params["_meta"] = {{kMetaVersion, "2026-07-28"}, {kMetaCapabilities, Json::object()}};
    return ask(method, std::move(params));
  }

  Json call(std::string_view tool, Json arguments) {
    return ask("tools/call", {{"name", tool}, {"arguments", std::move(arguments)}})["result"];
  }

  std::string text_of(const Json& result) { return result["content"][0]["text"].get<std::string>(); }
  int code_of(const Json& answer) { return answer["error"]["code"].get<int>(); }

  SystemClock clock_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<AgentNamespace> names_;
  std::unique_ptr<NamespaceView> view_;
  std::shared_ptr<Collected> outlet_ = std::make_shared<Collected>();
  std::unique_ptr<Service> service_;
  std::unique_ptr<Subscriptions> subscriptions_;
  std::unique_ptr<Session> session_;
  int id_ = 0;
};

TEST_F(McpSession, EachRevisionIsNegotiatedAndAnUnknownOneBecomesTheNewest) {
  for (std::string_view revision : {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}) {
    EXPECT_EQ(begin(revision)["result"]["protocolVersion"], revision);
  }
  EXPECT_EQ(begin("1999-01-01")["result"]["protocolVersion"], "2025-11-25");
  EXPECT_EQ(begin("2026-07-28")["result"]["protocolVersion"], "2025-11-25");  // has no initialize
}

TEST_F(McpSession, WhatIsNotARequestGetsTheErrorOfJsonRpc) {
  auto error_of_text = [&](std::string_view text) {
    std::vector<Json> got = send(text);
    return got.size() == 1 ? code_of(got[0]) : 0;
  };
  begin();
  EXPECT_EQ(error_of_text("{"), kParseError);
  EXPECT_EQ(error_of_text(""), kParseError);
  EXPECT_EQ(error_of_text("\xff\xfe"), kParseError);
  EXPECT_EQ(error_of_text(std::string(5000, '[')), kParseError);
  EXPECT_EQ(error_of_text("7"), kInvalidRequest);
  EXPECT_EQ(error_of_text("[]"), kInvalidRequest);
  EXPECT_EQ(error_of_text(R"({"id":1,"method":"ping"})"), kInvalidRequest);
  EXPECT_EQ(error_of_text(R"({"jsonrpc":"2.0","id":null,"method":"ping"})"), kInvalidRequest);
  EXPECT_EQ(error_of_text(R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})"), kInvalidRequest);
  EXPECT_EQ(error_of_text(R"({"jsonrpc":"2.0","id":99999999999999999999999,"method":"ping"})"), kInvalidRequest);
  EXPECT_EQ(error_of_text(R"({"jsonrpc":"2.0","id":1,"method":7})"), kInvalidRequest);
  EXPECT_EQ(error_of_text(R"({"jsonrpc":"2.0","id":1})"), kInvalidRequest);
  EXPECT_EQ(error_of_text(R"({"jsonrpc":"2.0","id":1,"method":"no/such"})"), kMethodNotFound);
  EXPECT_EQ(error_of_text(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]})"), kInvalidParams);
  EXPECT_EQ(error_of_text(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"?"}})"), kInvalidParams);
}

TEST_F(McpSession, ANotificationIsNeverAnswered) {
  begin();
  EXPECT_TRUE(send(R"({"jsonrpc":"2.0","method":"notifications/initialized"})").empty());
  EXPECT_TRUE(send(R"({"jsonrpc":"2.0","method":"no/such","params":[1]})").empty());
  EXPECT_TRUE(send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}})").empty());
  EXPECT_TRUE(send(R"({"jsonrpc":"2.0","id":5,"result":{}})").empty());  // a response to nothing
}

TEST_F(McpSession, ARequestNeedsASessionOrTheRevisionInItsMeta) {
  EXPECT_EQ(code_of(ask("tools/list")), kInvalidParams);
  EXPECT_TRUE(ask("ping").contains("result"));
  EXPECT_TRUE(ask_stateless("tools/list").contains("result"));
  EXPECT_EQ(code_of(ask("tools/list", {{"_meta", {{kMetaVersion, "2026-07-28"}}}})), kInvalidParams);
  Json old = ask("tools/list", {{"_meta", {{kMetaVersion, "2025-11-25"}, {kMetaCapabilities, Json::object()}}}});
  EXPECT_EQ(code_of(old), kUnsupportedVersion);
  EXPECT_EQ(old["error"]["data"]["supported"], Json::array({"2026-07-28"}));
}

TEST_F(McpSession, OnlyOneRevisionHasBatches) {
  constexpr std::string_view kBatch =
      R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":2,"method":"tools/list"},3])";
  begin("2025-06-18");
  EXPECT_EQ(code_of(send(kBatch).at(0)), kInvalidRequest);
  begin("2025-03-26");
  std::vector<Json> got = send(kBatch);
  ASSERT_EQ(got.size(), 1U);
  ASSERT_TRUE(got[0].is_array());
  EXPECT_EQ(got[0].size(), 3U);
  EXPECT_TRUE(send(R"([{"jsonrpc":"2.0","method":"x"}])").empty());
  EXPECT_EQ(
      code_of(send(R"([{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}])")
                  .at(0)
                  .at(0)),
      kInvalidRequest);
}

TEST_F(McpSession, ResultsOfTheStatelessEraSayWhatTheyAre) {
  Json found = ask_stateless("server/discover")["result"];
  EXPECT_EQ(found["resultType"], "complete");
  EXPECT_EQ(found["cacheScope"], "private");
  EXPECT_TRUE(found["ttlMs"].is_number());
  EXPECT_EQ(found["_meta"][kMetaServer]["name"], "warren");
  EXPECT_EQ(ask_stateless("tools/call", {{"name", "access"}, {"arguments", {{"path", "/"}}}})["result"]["resultType"],
            "complete");
  EXPECT_EQ(code_of(ask_stateless("ping")), kMethodNotFound);
  EXPECT_EQ(code_of(ask_stateless("initialize", {{"protocolVersion", "2026-07-28"}})), kMethodNotFound);
  EXPECT_EQ(code_of(ask_stateless("resources/subscribe", {{"uri", "/x"}})), kMethodNotFound);
  EXPECT_EQ(code_of(ask_stateless("logging/setLevel", {{"level", "debug"}})), kMethodNotFound);
}

TEST_F(McpSession, AnOlderRevisionGetsNoMembersThatItDoesNotHave) {
  begin("2024-11-05");
  Json old = ask("tools/list")["result"]["tools"][0];
  EXPECT_FALSE(old.contains("annotations") || old.contains("outputSchema") || old.contains("title"));
  EXPECT_FALSE(call("access", {{"path", "/"}}).contains("structuredContent"));
  begin("2025-06-18");
  Json tool = ask("tools/list")["result"]["tools"][0];
  EXPECT_TRUE(tool.contains("annotations") && tool.contains("outputSchema") && tool.contains("title"));
  EXPECT_TRUE(call("access", {{"path", "/"}}).contains("structuredContent"));
}

TEST_F(McpSession, ListsComeInPagesAndInTheSameOrder) {
  begin();
  Json all = ask("tools/list")["result"]["tools"];
  open({.page_size = 7});
  begin();
  Json paged = Json::array();
  Json params = Json::object();
  for (;;) {
    Json page = ask("tools/list", params)["result"];
    EXPECT_LE(page["tools"].size(), 7U);
    for (const Json& one : page["tools"]) paged.push_back(one);
    if (!page.contains("nextCursor")) break;
    params["cursor"] = page["nextCursor"];
  }
  EXPECT_EQ(paged, all);
}

TEST_F(McpSession, ResourcesAreFoundInPagesWhateverTheirNames) {
  open({.page_size = 2});
  begin();
  for (std::string_view path : {"/b", "/a!/x", "/a/b", "/a/b2/c", "/z\xff", "/sp ace%41"}) {
    ASSERT_OK(write_file(*view_, path, as_bytes(path)));
  }
  std::map<std::string, std::string> found;
  Json params = Json::object();
  for (int page = 0; page < 50; ++page) {
    Json result = ask("resources/list", params)["result"];
    for (const Json& one : result["resources"]) {
      auto uri = one["uri"].get<std::string>();
      if (uri.find("/audit/") != uri.npos) continue;
      Json read = ask("resources/read", {{"uri", uri}})["result"]["contents"][0];
      EXPECT_TRUE(found.emplace(uri, read.value("text", read.value("blob", ""))).second) << uri;
    }
    if (!result.contains("nextCursor")) break;
    params["cursor"] = result["nextCursor"];
  }
  EXPECT_EQ(found.size(), 6U);
}

TEST_F(McpSession, AMissingResourceIsAnError) {
  begin();
  std::string uri = "vfs://" + names_->agent_id() + "/no/such";
  EXPECT_EQ(code_of(ask("resources/read", {{"uri", uri}})), kResourceNotFound);
  EXPECT_EQ(code_of(ask_stateless("resources/read", {{"uri", uri}})), kInvalidParams);
  EXPECT_EQ(code_of(ask("resources/read", {{"uri", "vfs://other/x"}})), kResourceNotFound);
  EXPECT_EQ(code_of(ask("resources/read", {{"uri", "file:///etc/passwd"}})), kInvalidParams);
  EXPECT_EQ(code_of(ask("resources/read", {{"uri", "/../../etc/passwd"}})), kResourceNotFound);
  EXPECT_EQ(code_of(ask("resources/read", {{"uri", "/%2e%2e%00"}})), kResourceNotFound);
  EXPECT_EQ(code_of(ask("resources/read", {{"uri", "vfs://" + names_->agent_id() + "/%zz"}})), kInvalidParams);
}

TEST_F(McpSession, ASubscriberHearsOfAChange) {
  begin();
  std::string uri = "vfs://" + names_->agent_id() + "/watched";
  EXPECT_TRUE(ask("resources/subscribe", {{"uri", uri}}).contains("result"));
  ASSERT_OK(write_file(*view_, "/watched", as_bytes("x")));
  Json heard = outlet_->wait_for("notifications/resources/updated");
  EXPECT_EQ(heard["params"]["uri"], uri);
  EXPECT_TRUE(ask("resources/unsubscribe", {{"uri", uri}}).contains("result"));
}

TEST_F(McpSession, AListenerIsAcknowledgedHearsOfChangesAndIsAnsweredAtTheEnd) {
  std::string uri = "/mem/working/watched";
  EXPECT_TRUE(ask_stateless("subscriptions/listen",
                            {{"notifications", {{"toolsListChanged", true}, {"resourceSubscriptions", {uri}}}}})
                  .is_null());  // not answered yet
  ASSERT_OK(write_file(*view_, uri, as_bytes("x")));
  Json heard = outlet_->wait_for("notifications/resources/updated");
  EXPECT_EQ(heard["params"]["_meta"][kMetaSubscription], id_);
  EXPECT_EQ(session_->in_flight(), 0U);
  outlet_->take();
  session_->end_subscriptions();
  std::vector<Json> end = outlet_->take();
  ASSERT_EQ(end.size(), 1U);
  EXPECT_EQ(end[0]["result"]["_meta"][kMetaSubscription], id_);
}

TEST_F(McpSession, AClientHasAtMostAThousandSubscriptions) {
  Json uris = Json::array();
  for (int i = 0; i < 600; ++i) uris.push_back(fmt::format("/file-{}", i));
  Json params{{"notifications", {{"resourceSubscriptions", uris}}}};
  EXPECT_TRUE(ask_stateless("subscriptions/listen", params).is_null());  // it goes on
  outlet_->take();
  params["_meta"] = {{kMetaVersion, "2026-07-28"}, {kMetaCapabilities, Json::object()}};
  Json second{{"jsonrpc", "2.0"}, {"id", "second"}, {"method", "subscriptions/listen"}, {"params", params}};
  std::vector<Json> got = send(dump_json(second));
  ASSERT_EQ(got.size(), 1U);  // no acknowledgement
  EXPECT_TRUE(got[0]["error"]["message"].get<std::string>().starts_with("too many subscriptions"));
  EXPECT_EQ(got[0]["id"], "second");
}

TEST_F(McpSession, EveryListenCountsAlsoOneWithoutResources) {
  Json params{{"notifications", Json::object()}};
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(ask_stateless("subscriptions/listen", params).is_null()) << i;
  EXPECT_TRUE(ask_stateless("subscriptions/listen", params).contains("error"));
}

TEST_F(McpSession, AListenThatCannotBeAddedIsAnErrorAndNotAcknowledged) {
  while (subscriptions_->add("/x", [] {}).ok()) {
  }
  Json params{{"notifications", {{"resourceSubscriptions", {"/y"}}}}};
  params["_meta"] = {{kMetaVersion, "2026-07-28"}, {kMetaCapabilities, Json::object()}};
  Json request{{"jsonrpc", "2.0"}, {"id", 1}, {"method", "subscriptions/listen"}, {"params", params}};
  std::vector<Json> got = send(dump_json(request));
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(got[0].contains("error")) << dump_json(got[0]);
  EXPECT_FALSE(session_->is_listening());
}

TEST_F(McpSession, AListenInABatchIsRefusedAndTheOthersAreAnswered) {
  begin("2025-03-26");
  Json params{{"notifications", Json::object()}};
  params["_meta"] = {{kMetaVersion, "2026-07-28"}, {kMetaCapabilities, Json::object()}};
  Json batch = Json::array();
  batch.push_back({{"jsonrpc", "2.0"}, {"id", "l"}, {"method", "subscriptions/listen"}, {"params", params}});
  batch.push_back({{"jsonrpc", "2.0"}, {"id", "p"}, {"method", "ping"}});
  std::vector<Json> got = send(dump_json(batch));
  ASSERT_EQ(got.size(), 1U);
  ASSERT_EQ(got[0].size(), 2U);
  EXPECT_EQ(code_of(got[0][0]), kInvalidRequest);
  EXPECT_TRUE(got[0][1].contains("result"));
}

TEST_F(McpSession, TheBytesOfRunningRequestsAreCountedUntilTheyAreAnswered) {
  std::vector<std::function<void()>> jobs;
  session_ = std::make_unique<Session>(*service_, *subscriptions_,
                                       Session::Options{.run =
                                                            [&](CallKind, std::function<void()> job) {
                                                              jobs.push_back(std::move(job));
                                                              return true;
                                                            },
                                                        .notices = outlet_});
  begin();
  std::string text = dump_json({{"jsonrpc", "2.0"}, {"id", "a"}, {"method", "tools/list"}});
  send(text);
  EXPECT_EQ(session_->in_flight_bytes(), text.size());
  for (auto& job : jobs) job();
  EXPECT_EQ(session_->in_flight_bytes(), 0U);
  ask_stateless("subscriptions/listen", {{"notifications", {{"resourceSubscriptions", {"/a"}}}}});
  EXPECT_TRUE(session_->is_listening());
  EXPECT_EQ(session_->in_flight_bytes(), 0U);
  session_->wait_for_room(1, 1);
}

TEST_F(McpSession, ACancelledRequestIsNotAnswered) {
  std::function<void()> waiting;
  session_ = std::make_unique<Session>(*service_, *subscriptions_,
                                       Session::Options{.run =
                                                            [&](CallKind, std::function<void()> job) {
                                                              waiting = std::move(job);
                                                              return true;
                                                            },
                                                        .notices = outlet_});
  begin();
  Json request{{"jsonrpc", "2.0"}, {"id", "a"}, {"method", "tools/call"}, {"params", {{"name", "tree"}}}};
  EXPECT_TRUE(send(dump_json(request)).empty());
  EXPECT_EQ(code_of(send(dump_json(request)).at(0)), kInvalidRequest);  // the id is in use
  send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}})");
  waiting();
  EXPECT_TRUE(outlet_->take().empty());
  EXPECT_EQ(session_->in_flight(), 0U);
}

TEST_F(McpSession, LongCallsAreBoundedAndKeepOtherCallsFromNothing) {
  ServiceOptions options;
  options.reach.run = [](const SandboxCommand&) { return ProgramEnd{}; };
  open(std::move(options));
  std::vector<std::function<void()>> long_jobs;
  auto run = [&](CallKind kind, std::function<void()> job) {
    if (kind == CallKind::kLong) long_jobs.push_back(std::move(job));
    else job();
    return true;
  };
  session_ = std::make_unique<Session>(*service_, *subscriptions_, Session::Options{.run = run, .notices = outlet_});
  begin();
  for (int i = 0; i < Service::kLongCallsMax; ++i) EXPECT_EQ(call("run", {{"command", "true"}}), nullptr);
  Json refused = call("run", {{"command", "true"}});
  EXPECT_EQ(refused["isError"], true);
  EXPECT_NE(text_of(refused).find("\"busy\""), std::string::npos) << text_of(refused);
  EXPECT_EQ(long_jobs.size(), static_cast<std::size_t>(Service::kLongCallsMax));
  EXPECT_EQ(call("readdir", {{"path", "/"}})["isError"], false);
  long_jobs.back()();
  EXPECT_EQ(outlet_->take().at(0)["result"]["isError"], false);
  EXPECT_EQ(call("run", {{"command", "true"}}), nullptr);
  EXPECT_EQ(long_jobs.size(), static_cast<std::size_t>(Service::kLongCallsMax) + 1);
}

TEST_F(McpSession, OnlyTheToolsThatAreOfferedCanBeCalled) {
  open({.tools = select_tools("keys,read_file", {}).value()});
  begin();
  EXPECT_EQ(ask("tools/list")["result"]["tools"].size(), 5U);
  EXPECT_EQ(code_of(ask("tools/call", {{"name", "write_file"}})), kInvalidParams);
  EXPECT_EQ(code_of(ask("tools/call", {{"name", "no_such"}})), kInvalidParams);
  EXPECT_EQ(code_of(ask("tools/call", {{"name", "kv_get"}, {"arguments", 3}})), kInvalidParams);
  EXPECT_FALSE(select_tools("files,nonsense", {}).ok());
  for (const char* list : {"", " ", "files,,keys", "files,"}) EXPECT_FALSE(select_tools(list, {}).ok()) << list;
  for (const Tool* tool : select_tools("all", {.is_read_only = true}).value())
    EXPECT_TRUE(tool->hints.is_read_only) << tool->name;
}

TEST_F(McpSession, EveryCallIsInTheTrail) {
  begin();
  call("write_file", {{"path", "/x"}, {"content", "1"}});
  call("read_file", {{"path", "/nothing"}});
  call("read_file", {{"wrong", 1}});
  std::vector<ToolCall> calls = agent_->tools().list().value();
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[2].status, CallStatus::kSuccess);
  EXPECT_EQ(calls[1].status, CallStatus::kError);
  EXPECT_EQ(calls[0].status, CallStatus::kError);
}

TEST_F(McpSession, LogMessagesComeOnceTheyAreAskedFor) {
  begin();
  call("access", {{"path", "/"}});
  EXPECT_EQ(code_of(ask("logging/setLevel", {{"level", "loud"}})), kInvalidParams);
  EXPECT_TRUE(ask("logging/setLevel", {{"level", "debug"}}).contains("result"));
  session_->receive(
      R"({"jsonrpc":"2.0","id":"l","method":"tools/call","params":{"name":"access","arguments":{"path":"/"}}})",
      outlet_);
  EXPECT_EQ(outlet_->wait_for("notifications/message")["params"]["level"], "debug");
}

// Whatever arrives, the answer is JSON-RPC and the next request is served.
TEST_F(McpSession, AToolThatNeedsWhatIsNotThereIsNotOffered) {
  ToolReach nothing;
  for (const Tool* tool : select_tools(std::nullopt, {.reach = &nothing}).value()) {
    EXPECT_EQ(tool->need, ToolNeed::kNothing) << tool->name;
  }
  for (std::string_view word : {"run", "apply", "relay", "relay_send", "session"}) {
    EXPECT_EQ(warren::testing::error_of(select_tools(word, {.reach = &nothing})), Code::kInvalid) << word;
  }
  for (const Tool* tool : select_tools(std::nullopt, {.is_for_peer = true}).value()) EXPECT_EQ(tool->group, "files");
  EXPECT_EQ(warren::testing::error_of(select_tools("keys", {.is_for_peer = true})), Code::kInvalid);
  EXPECT_EQ(warren::testing::error_of(select_tools("write_file", {.is_read_only = true})), Code::kInvalid);
}

// Rights that changed too often are none: the last ones that were taken over must not hold on.
TEST_F(McpSession, AtTheLimitOfRenewalsEveryRequestIsRefused) {
  int renewals = 0;
  auto renew = [&]() -> Result<std::unique_ptr<NamespaceView>> {
    if (renewals == 1001) return std::unique_ptr<NamespaceView>();  // as nothing changes after that
    ++renewals;
    return (*names_)->view({.agent = names_->agent_id(), .space = Space::kUser, .door = "mcp", .session = {}});
  };
  open({.renew_view = renew});
  for (int i = 0; i < 1000; ++i) ASSERT_OK(service_->refresh_view());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(warren::testing::error_of(service_->refresh_view()), Code::kLimit);
}

TEST_F(McpSession, ResourcesFollowTheToolsThatReadThem) {
  open({.tools = select_tools("checkpoints", {}).value()});
  EXPECT_FALSE(begin()["result"]["capabilities"].contains("resources"));
  EXPECT_EQ(code_of(ask("resources/list")), kMethodNotFound);
  EXPECT_EQ(code_of(ask("resources/read", {{"uri", "/x"}})), kMethodNotFound);
  open({.tools = select_tools("kv_get,grep", {}).value()});
  EXPECT_TRUE(begin()["result"]["capabilities"].contains("resources"));
  EXPECT_TRUE(ask("resources/list")["result"]["resources"].empty());
  EXPECT_EQ(code_of(ask("resources/read", {{"uri", "/x"}})), kResourceNotFound);
}

TEST_F(McpSession, WithoutASessionAQuestionIsTheResultAndTheAnswerComesWithTheNextCall) {
  ASSERT_OK(make_dir(*view_, "/d"));
  ASSERT_OK(write_file(*view_, "/d/f", as_bytes("x")));
  Json params{{"name", "remove"}, {"arguments", {{"path", "/d"}, {"recursive", true}}}};
  params["_meta"] = {{kMetaVersion, "2026-07-28"}, {kMetaCapabilities, {{"elicitation", Json::object()}}}};
  Json first = ask("tools/call", params)["result"];
  EXPECT_EQ(first["resultType"], "input_required");
  EXPECT_EQ(first["inputRequests"]["confirm"]["method"], "elicitation/create");
  EXPECT_TRUE(exists(*view_, "/d/f").value());
  params["inputResponses"] = {{"confirm", {{"action", "accept"}, {"content", {{"confirm", true}}}}}};
  params["requestState"] = "another";
  EXPECT_EQ(ask("tools/call", params)["result"]["resultType"], "input_required");
  params["requestState"] = first["requestState"];
  EXPECT_EQ(ask("tools/call", params)["result"]["resultType"], "complete");
  EXPECT_FALSE(exists(*view_, "/d").value());
}

TEST_F(McpSession, AnAnswerToNothingThatWasAskedIsIgnored) {
  begin();
  EXPECT_TRUE(send(R"({"jsonrpc":"2.0","id":"warren-1","result":{}})").empty());
  EXPECT_TRUE(send(R"({"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}})").empty());
}

TEST_F(McpSession, BytesOfAnyKindAreAnsweredOrIgnored) {
  begin();
  const std::string seed =
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"edit_file","arguments":{"path":"/a","edits":[{"old_text":"x","new_text":"y"}]},"_meta":{"progressToken":1}}})";
  std::uint64_t state = 1;
  auto next = [&] { return state = state * 6364136223846793005U + 1442695040888963407U; };
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed;
    for (std::uint64_t i = 0, n = next() >> 61U; i <= n; ++i) {
      std::size_t at = (next() >> 33U) % text.size();
      switch ((next() >> 60U) % 4) {
        case 0: text[at] = static_cast<char>(next() >> 56U); break;
        case 1: text.erase(at, 1 + (next() >> 60U)); break;
        case 2: text.insert(at, text.substr((next() >> 33U) % text.size(), 9)); break;
        default: text.resize(at + 1); break;
      }
      if (text.empty()) text = "{";
    }
    for (const Json& one : send(text)) {
      bool is_answer = one.contains("result") || one.contains("error") || one.contains("method");
      ASSERT_TRUE(is_answer) << text;
    }
  }
  EXPECT_TRUE(ask("ping").contains("result"));
}

}  // namespace
}  // namespace warren::mcp
