// When this thread gets a processor that others want too. Wishes, both: a kernel that knows no such thing does as it
// likes.
#pragma once

namespace warren {

// It works in short pieces, and somebody waits for each: it is run soon after it wakes, and gives way sooner as well.
// Not for threads and processes that it starts.
void take_short_turns();

// Nobody waits for it.
void give_way();

}  // namespace warren
