// Two agents that talk through a relay: alice asks, bob answers. Start one first: warren relay up --daemon --root DIR
//
//   mail DIR
#include <chrono>
#include <cstdio>

#include <warren/relay.h>

namespace {

using namespace std::chrono_literals;

warren::Result<warren::RelayMail> next_mail(warren::RelayClient& client) {
  if (!WARREN_TRY(client.wait_for_mail(30s))) {
    return warren::Error(warren::Code::kTimeout, "no mail arrived: is a relay running?");
  }
  std::vector<std::string> files = WARREN_TRY(client.list_inbox());
  warren::RelayMail mail = WARREN_TRY(client.read(files.front()));
  WARREN_TRY(client.acknowledge(mail.file));
  return mail;
}

warren::Status run(const char* root) {
  auto alice =
      WARREN_TRY(warren::RelayClient::open({.root = root, .agent = "alice", .registers = warren::Register::kYes}));
  auto bob = WARREN_TRY(warren::RelayClient::open({.root = root, .agent = "bob", .registers = warren::Register::kYes}));

  WARREN_TRY(alice->send({.to = "bob", .thread = "greeting", .body = "How are you?"}));
  warren::RelayMail question = WARREN_TRY(next_mail(*bob));
  std::printf("%s: %s\n", question.from.c_str(), question.message.body.c_str());

  WARREN_TRY(bob->send({.to = question.from, .thread = question.message.thread, .body = "Well, thank you."}));
  warren::RelayMail answer = WARREN_TRY(next_mail(*alice));
  std::printf("%s: %s\n", answer.from.c_str(), answer.message.body.c_str());
  return warren::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: mail DIR\n", stderr);
    return 2;
  }
  warren::Status done = run(argv[1]);
  if (done.ok()) return 0;
  std::fprintf(stderr, "mail: %s\n", done.error().message().c_str());
  return 1;
}
