// Scheduling hints for the calling thread. Kernels that do not know them ignore them.
#pragma once

namespace warren {

// For a thread that works in short bursts that others wait for: it runs soon after it wakes, and yields sooner too. Not
// inherited by threads and processes that it starts.
void take_short_turns();

// For a thread that nobody waits for: lowers its priority.
void give_way();

}  // namespace warren
