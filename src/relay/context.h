// What the parts of a relay share. All of it outlives them.
#pragma once

#include "base/clock.h"
#include "relay/delivery/router.h"
#include "relay/ledger/ledger.h"
#include "relay/root/config.h"
#include "relay/root/log.h"
#include "relay/root/root.h"
#include "relay/upkeep/metrics.h"

namespace warren::relay {

struct Environment {
  Root& root;
  const Config& config;
  Clock& clock;
  Log& log;
  Metrics& metrics;
};

struct Context : Environment {
  Router& router;
  Ledger& ledger;
};

}  // namespace warren::relay
