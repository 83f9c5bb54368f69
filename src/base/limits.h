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
inline constexpr std::size_t kStoredPathBytes = kTreeDepth * (kNameBytes + 1);  // reached by chdir, name by name
inline constexpr std::uint32_t kLinks = 65000;

// File offsets are signed 64-bit in every API above us; a chunk index must fit in one as well.
inline constexpr std::uint64_t kFileBytes = (std::uint64_t{1} << 62);

inline constexpr std::uint32_t kChunkBytesMin = 512;
inline constexpr std::uint32_t kChunkBytesMax = 1U << 20;
inline constexpr std::uint32_t kStoredChunkBytesMax = 1U << 30;  // in files by other programs
inline constexpr std::uint32_t kChunkBytesDefault = 4096;

inline constexpr std::size_t kXattrNameBytes = 255;
inline constexpr std::size_t kXattrValueBytes = 65536;

// What /mem/working may hold in the memory of a process that hosts an agent, and what a node counts besides its
// content.
inline constexpr std::uint64_t kWorkingMemoryBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kMemoryNodeBytes = 512;

inline constexpr std::size_t kKeyBytes = 4096;
inline constexpr std::size_t kValueBytes = std::size_t{64} << 20;
inline constexpr std::size_t kToolNameBytes = 255;

// One page of a directory listing, and one step of a copy: bounds the memory of both.
inline constexpr std::size_t kDirPage = 512;
inline constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

inline constexpr std::uint64_t kReadFileBytes = std::uint64_t{1} << 30;  // read_file's default
inline constexpr std::size_t kRemoveUnit = 1024;  // entries a recursive remove takes in one transaction

// How long a writer waits for another process before it reports kBusy.
inline constexpr std::chrono::milliseconds kBusyWait{10'000};

// How long, and up to how many bytes, a mount may hold back changes to commit them together.
inline constexpr std::chrono::milliseconds kBatchTime{100};
inline constexpr std::uint64_t kBatchBytes = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kMustKeepBytes = std::uint64_t{32} << 20;  // kept in a batch without room on the disk
inline constexpr int kBatchAttempts = 3;  // to commit it, if it fails for a reason that does not pass

// A mount truncates by more than this in steps.
inline constexpr std::uint64_t kShrinkBytes = std::uint64_t{64} << 20;

// Through a mount, a directory with more entries than this that has not been counted shows a link count of 1, which
// means "unknown" (as on btrfs).
inline constexpr std::uint64_t kCountedEntries = 256;

// The first change copies a file of an overlay's base whole up to this size; larger files are copied part by part, as
// they are written. Up to the second size, the original of a text file is kept for merging.
inline constexpr std::uint64_t kCopyWholeBytes = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kAncestorBytes = std::uint64_t{256} << 10;
// Larger files of the base that an overlay holds open because parts of them are not copied. If the host moves, replaces
// or removes one, the rest is copied, up to the second size.
inline constexpr std::size_t kHeldFiles = 64;
inline constexpr std::uint64_t kRestBytes = std::uint64_t{1} << 30;

// What applies replaced is kept for `warren undo`: at most so much of all applies together, and so long.
inline constexpr std::uint64_t kUndoBytes = std::uint64_t{1} << 30;
inline constexpr std::int64_t kUndoSeconds = std::int64_t{30} * 24 * 3600;

// Rows of wr_journal kept; a reader that is further behind starts over.
inline constexpr std::int64_t kJournalRows = 65'536;

// Violations of one rule that fsck lists; it only counts the rest.
inline constexpr std::size_t kFsckPerRule = 20;

// The effort of a diff. Reaching these is not an error, the result only gets coarser: more lines than this become one
// block, and so does whatever is left after this many steps; a stretch that costs more edits is split where the search
// stands.
inline constexpr std::size_t kDiffLines = std::size_t{8} << 20;
inline constexpr std::uint64_t kDiffSteps = std::uint64_t{1} << 27;
inline constexpr int kDiffCost = 2048;

// Beyond this size a patch only says that a file differs, and a merge is not attempted.
inline constexpr std::uint64_t kPatchFileBytes = std::uint64_t{64} << 20;

// Of an agent whose files are encrypted by patterns.
inline constexpr std::size_t kContentKeys = 1000;
inline constexpr std::size_t kCipherPatterns = 256;

inline constexpr int kFaultSweep = 2000;  // tests: disk calls tried one by one until none fails

}  // namespace warren::limits
