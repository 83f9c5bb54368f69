// Every limit Warren keeps, by name. Reaching one is an error with a message, never a hang.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace warren::limits {

inline constexpr std::size_t kNameBytes = 255;
inline constexpr std::size_t kPathBytes = 4096;
inline constexpr int kSymlinkDepth = 40;
inline constexpr int kTreeDepth = 2048;  // deeper than any 4096-byte path can name
inline constexpr std::uint32_t kLinks = 65000;

// File offsets are signed 64-bit in every API above us; a chunk index must fit in one as well.
inline constexpr std::uint64_t kFileBytes = (std::uint64_t{1} << 62);

inline constexpr std::uint32_t kChunkBytesMin = 512;
inline constexpr std::uint32_t kChunkBytesMax = 1U << 20;
inline constexpr std::uint32_t kChunkBytesDefault = 4096;

inline constexpr std::size_t kXattrNameBytes = 255;
inline constexpr std::size_t kXattrValueBytes = 65536;

inline constexpr std::size_t kKeyBytes = 4096;
inline constexpr std::size_t kValueBytes = std::size_t{64} << 20;
inline constexpr std::size_t kToolNameBytes = 255;

// One page of a directory listing, and one step of a copy: bounds the memory of both.
inline constexpr std::size_t kDirPage = 512;
inline constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

inline constexpr std::uint64_t kReadFileBytes = std::uint64_t{1} << 30;  // read_file, unless told otherwise
inline constexpr std::size_t kRemoveUnit = 1024;  // entries a recursive remove takes in one transaction

// How long a writer waits for another process before it reports kBusy.
inline constexpr std::chrono::milliseconds kBusyWait{10'000};

// How long, and up to how much, changes through a mount may be held back to be committed together.
inline constexpr std::chrono::milliseconds kBatchTime{100};
inline constexpr std::uint64_t kBatchBytes = std::uint64_t{4} << 20;

// A mount takes more than this away from a file in steps.
inline constexpr std::uint64_t kShrinkBytes = std::uint64_t{64} << 20;

// Through a mount a directory with more entries than this, that nobody has counted, shows a link count of
// 1, which stands for "unknown" (as on btrfs).
inline constexpr std::uint64_t kCountedEntries = 256;

// Rows of wr_journal kept; a reader that is further behind looks at everything again.
inline constexpr std::int64_t kJournalRows = 65'536;

// Violations of one rule that fsck spells out; the rest it counts.
inline constexpr std::size_t kFsckPerRule = 20;

inline constexpr int kFaultSweep = 2000;  // tests: disk calls tried one by one until none fails

}  // namespace warren::limits
