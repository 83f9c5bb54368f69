// What every blob store behind a network owes when the network fails, as functions that the test of each store calls.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/blob/blob_store.h"
#include "testing/faulty_proxy.h"

namespace warren::testing {

using MakeStore = std::function<std::unique_ptr<BlobStore>()>;

// `store` reaches its server through `proxy` and has a timeout of at most a second. Under each fault every call ends
// soon with kUnavailable; afterwards the same store works, and has what it had acknowledged.
void expect_faults_are_bounded(BlobStore& store, FaultyProxy& proxy);

// The same store while answers come in small pieces: slow, but right. One that would take too long ends in time.
void expect_slow_answers_are_right(BlobStore& store, FaultyProxy& proxy);

// Writes from several threads until `kill` has returned and for a moment after `restart` has: what was acknowledged is
// there.
void expect_nothing_acknowledged_is_lost(const MakeStore& open, const std::function<void()>& kill,
                                         const std::function<void()>& restart);

// Two processes count to `2 * rounds` in one value, each by if_match.
void expect_two_processes_count(const MakeStore& open, int rounds);

}  // namespace warren::testing
