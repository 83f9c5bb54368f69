// The part of SqliteFs for content and attributes.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/limits.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "store/tables/usage.h"

namespace warren {
namespace {

// A write of this size or more may have to wait for a checkpoint. A mount hands such writes to a worker.
constexpr std::size_t kLargeWrite = (std::size_t{128} << 10) + 1;

Status check_extent(std::uint64_t offset, std::uint64_t length) {
  if (offset > limits::kFileBytes || length > limits::kFileBytes - offset) {
    return Error(Code::kTooLarge, fmt::format("a file can have at most {} bytes", limits::kFileBytes));
  }
  return Ok{};
}

Status check_time(const std::optional<SetTime>& time) {
  if (time && time->at && (time->at->nanoseconds < 0 || time->at->nanoseconds > 999'999'999)) {
    return Error(Code::kInvalid, fmt::format("{} is not a valid number of nanoseconds", time->at->nanoseconds));
  }
  return Ok{};
}

}  // namespace

Result<std::size_t> SqliteFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_content_row(node));
  if (offset >= row.size) return std::size_t{0};
  std::size_t length = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), row.size - offset));
  WARREN_TRY(chunks_->read(node, offset, out.first(length)));
  return length;
}

Status SqliteFs::charge_size(const Attributes& row, std::uint64_t new_size) {
  return store_.usage().charge(static_cast<std::int64_t>(new_size) - static_cast<std::int64_t>(row.size), 0);
}

Status SqliteFs::write_row(Attributes& row, std::uint64_t offset, Bytes data) {
  std::uint64_t new_size = std::max(row.size, offset + data.size());
  WARREN_TRY(charge_size(row, new_size));
  WARREN_TRY(chunks_->write(row.inode, row.size, offset, data));
  row.size = new_size;
  row.mtime = clock_.now();
  row.ctime = row.mtime;
  WARREN_TRY(nodes_->update(row));
  store_.journal()->note_data(row.inode);
  return Ok{};
}

Status SqliteFs::write(Inode node, std::uint64_t offset, Bytes data) {
  if (data.size() >= kLargeWrite) store_.make_room();
  Transaction scope = WARREN_TRY(growth_scope(data.size()));
  Attributes row = WARREN_TRY(get_content_row(node));
  if (data.empty()) return Ok{};
  WARREN_TRY(check_extent(offset, data.size()));
  WARREN_TRY(write_row(row, offset, data));
  return scope.commit();
}

Result<std::uint64_t> SqliteFs::append(Inode node, Bytes data) {
  if (data.size() >= kLargeWrite) store_.make_room();
  Transaction scope = WARREN_TRY(growth_scope(data.size()));
  Attributes row = WARREN_TRY(get_content_row(node));
  std::uint64_t offset = row.size;
  WARREN_TRY(check_extent(offset, data.size()));
  if (data.empty()) return offset;
  WARREN_TRY(write_row(row, offset, data));
  WARREN_TRY(scope.commit());
  return offset;
}

Status SqliteFs::resize_row(Attributes& row, std::uint64_t size) {
  WARREN_TRY(charge_size(row, size));
  if (size < row.size) WARREN_TRY(chunks_->cut(row.inode, size));
  else WARREN_TRY(chunks_->grow(row.inode, size));
  row.size = size;
  store_.journal()->note_data(row.inode);
  return Ok{};
}

// Cuts off a part of a file that is much larger than `size`; false if one transaction can do the rest.
// Each step is a change of its own: readers in between, or after a crash, see a shorter file.
Result<bool> SqliteFs::shrink_step(Inode node, std::uint64_t size) {
  Transaction scope = WARREN_TRY(write_scope());
  std::optional<Attributes> row = WARREN_TRY(nodes_->find(node));
  if (!row || !row->is_file() || row->size <= size || row->size - size <= limits::kShrinkBytes) return false;
  WARREN_TRY(get_content_row(node));  // others may have changed it since the last step
  std::uint64_t left = WARREN_TRY(chunks_->cut_some(node, size));
  WARREN_TRY(resize_row(*row, left));
  WARREN_TRY(nodes_->update(*row));
  WARREN_TRY(scope.commit());
  return true;
}

Status SqliteFs::shrink_in_steps(Inode node, std::uint64_t size) {
  while (WARREN_TRY(shrink_step(node, size))) continue;
  return Ok{};
}

Result<Attributes> SqliteFs::check_changes(Inode node, const AttributeChanges& changes) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = changes.size ? WARREN_TRY(get_content_row(node)) : WARREN_TRY(get_row(node));
  if (changes.size) WARREN_TRY(check_extent(*changes.size, 0));
  WARREN_TRY(check_time(changes.atime));
  WARREN_TRY(check_time(changes.mtime));
  return row;
}

Result<Attributes> SqliteFs::set_attributes(Inode node, const AttributeChanges& changes) {
  bool any = changes.mode || changes.uid || changes.gid || changes.size || changes.atime || changes.mtime;
  if (!any) return get_attributes(node);
  if (changes.size && database_.is_grouped()) {
    WARREN_TRY(check_changes(node, changes));  // before the first step, which cannot be undone
    WARREN_TRY(shrink_in_steps(node, *changes.size));
  }
  Transaction scope = WARREN_TRY(write_scope());
  Attributes row = WARREN_TRY(check_changes(node, changes));
  Timestamp now = clock_.now();
  if (changes.size) {
    WARREN_TRY(resize_row(row, *changes.size));
    if (*changes.size == 0) WARREN_TRY(expiries_->erase(node));  // what is written from now on is another content
    row.mtime = now;
  }
  if (changes.mode) row.mode = (row.mode & S_IFMT) | (*changes.mode & 07777);
  if (changes.uid) row.owner.uid = *changes.uid;
  if (changes.gid) row.owner.gid = *changes.gid;
  if (changes.atime) row.atime = changes.atime->at.value_or(now);
  if (changes.mtime) row.mtime = changes.mtime->at.value_or(now);
  row.ctime = now;
  Attributes result = WARREN_TRY(shown(row));
  WARREN_TRY(nodes_->update(row));
  store_.journal()->note_attributes(node);
  WARREN_TRY(scope.commit());
  return result;
}

Status SqliteFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  Transaction scope = WARREN_TRY(write_scope());
  Attributes row = WARREN_TRY(get_content_row(node));
  if (length == 0) return Error(Code::kInvalid, "the range is empty");
  WARREN_TRY(check_extent(offset, length));
  bool zeroes =
      mode == AllocateMode::kPunchHole || mode == AllocateMode::kZeroRange || mode == AllocateMode::kZeroRangeKeepSize;
  bool grows = (mode == AllocateMode::kAllocate || mode == AllocateMode::kZeroRange) && offset + length > row.size;
  if (!zeroes && !grows) return Ok{};
  std::uint64_t old_size = row.size;
  if (grows) WARREN_TRY(resize_row(row, offset + length));  // first: the quota may refuse it
  if (zeroes) {
    WARREN_TRY(chunks_->punch(node, old_size, offset, length));
    store_.journal()->note_data(node);
  }
  row.mtime = clock_.now();
  row.ctime = row.mtime;
  WARREN_TRY(nodes_->update(row));
  return scope.commit();
}

Result<std::uint64_t> SqliteFs::seek_data(Inode node, std::uint64_t offset) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_file_row(node));
  if (offset < row.size) {
    std::optional<std::uint64_t> found = WARREN_TRY(chunks_->find_data(node, offset));
    if (found && *found < row.size) return *found;
  }
  return Error(Code::kNoData, fmt::format("no data at or after {}", offset));
}

Result<std::uint64_t> SqliteFs::seek_hole(Inode node, std::uint64_t offset) {
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_file_row(node));
  if (offset >= row.size) return Error(Code::kNoData, fmt::format("the file ends before {}", offset));
  std::uint64_t found = WARREN_TRY(chunks_->find_hole(node, offset));
  return std::min(found, row.size);
}

Result<std::uint64_t> SqliteFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                           std::uint64_t length) {
  Transaction scope = WARREN_TRY(growth_scope(std::min<std::uint64_t>(length, limits::kCopyBytes)));
  Attributes source = WARREN_TRY(get_content_row(from));
  Attributes target = WARREN_TRY(get_content_row(to));
  if (from_offset >= source.size || length == 0) return std::uint64_t{0};
  length = std::min(length, source.size - from_offset);
  WARREN_TRY(check_extent(to_offset, length));
  if (from == to && from_offset < to_offset + length && to_offset < from_offset + length) {
    return Error(Code::kInvalid, "the two ranges overlap");
  }
  // Checked before anything is changed: the transaction may contain more than this copy.
  auto growth = static_cast<std::int64_t>(std::max(target.size, to_offset + length) - target.size);
  WARREN_TRY(store_.usage().charge(growth, 0));
  WARREN_TRY(store_.usage().charge(-growth, 0));
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(length, limits::kCopyBytes)));
  for (std::uint64_t done = 0; done < length;) {
    MutableBytes part =
        MutableBytes(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), length - done)));
    WARREN_TRY(chunks_->read(from, from_offset + done, part));
    WARREN_TRY(write_row(target, to_offset + done, part));
    done += part.size();
  }
  WARREN_TRY(scope.commit());
  return length;
}

}  // namespace warren
