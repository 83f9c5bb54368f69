// The public API for agents that exchange messages through a relay (`warren relay up`).
//
//   #include <warren/relay.h>
//
//   warren::Status ask() {
//     auto mail = WARREN_TRY(warren::RelayClient::open({.agent = "alice"}));
//     std::string id = WARREN_TRY(mail->send({.to = "bob", .body = "please look at the tests"}));
//     return warren::Ok{};
//   }
#pragma once

#include <warren/v1/relay.h>

namespace warren {
using namespace v1;
}  // namespace warren
