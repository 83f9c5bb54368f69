#include "vfs/audit_file_fs.h"

#include <algorithm>
#include <utility>

#include "base/path.h"

namespace warren {
namespace {

Error refuse_change() { return Error(Code::kReadOnly, "the audit trail cannot be changed: it grows by what is done"); }

bool is_file(Inode node) { return node == AuditFileFs::kInode; }

}  // namespace

AuditFileFs::AuditFileFs(FileSystem& tree, AuditLog& log, Clock& clock)
    : ForwardingFs(tree), log_(log), opened_(clock.now()) {}

// The folder may have been replaced by another door, so it is looked up each time; the store caches that.
Result<bool> AuditFileFs::is_folder(Inode dir) {
  Result<Attributes> folder = inner().lookup(kRootInode, kAuditFolder);
  if (!folder.ok() && folder.error().code() != Code::kNotFound) return std::move(folder).take_error();
  return folder.ok() && folder->inode == dir;
}

Status AuditFileFs::check_place(Inode dir, std::string_view name) {
  if (name == kAuditFile && WARREN_TRY(is_folder(dir))) return refuse_change();
  return Ok{};
}

// Its time is that of the last event.
Result<Attributes> AuditFileFs::attributes() {
  AuditHead head = WARREN_TRY(log_.head());
  std::vector<StoredAuditRow> last = WARREN_TRY(log_.read_after(head.seq - 1, 1));
  Attributes found;
  found.inode = kInode;
  found.mode = S_IFREG | 0444;
  found.nlink = 1;
  found.size = head.end_bytes;
  found.atime = found.mtime = found.ctime = opened_;
  if (!last.empty() && head.seq > 0) {
    std::int64_t at = last.front().row.event.at_us;
    found.mtime = {.seconds = at / 1'000'000, .nanoseconds = static_cast<std::int32_t>(at % 1'000'000 * 1000)};
    found.ctime = found.mtime;
  }
  return found;
}

Status AuditFileFs::listen(ChangeListener* listener) {
  {
    std::lock_guard lock(listener_mutex_);
    listener_ = listener;
  }
  return inner().listen(listener);
}

void AuditFileFs::announce() {
  std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->node_changed(kInode);
}

// Names.

Result<Attributes> AuditFileFs::lookup(Inode parent, std::string_view name) {
  if (is_file(parent)) return Error(Code::kNotDirectory, "it is not a directory");
  if (name == kAuditFile && WARREN_TRY(is_folder(parent))) return attributes();
  return inner().lookup(parent, name);
}

Result<Attributes> AuditFileFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_place(parent, name));
  return inner().make_node(parent, name, node);
}

Result<Attributes> AuditFileFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_place(parent, name));
  return inner().make_dir(parent, name, node);
}

Result<Attributes> AuditFileFs::make_symlink(Inode parent, std::string_view name, std::string_view target,
                                             Owner owner) {
  WARREN_TRY(check_place(parent, name));
  return inner().make_symlink(parent, name, target, owner);
}

Result<Attributes> AuditFileFs::create(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_place(parent, name));
  return inner().create(parent, name, node);
}

Result<Attributes> AuditFileFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  if (is_file(node)) return refuse_change();
  WARREN_TRY(check_place(new_parent, new_name));
  return inner().link(node, new_parent, new_name);
}

Status AuditFileFs::unlink(Inode parent, std::string_view name) {
  WARREN_TRY(check_place(parent, name));
  return inner().unlink(parent, name);
}

Status AuditFileFs::remove_dir(Inode parent, std::string_view name) {
  WARREN_TRY(check_place(parent, name));
  return inner().remove_dir(parent, name);
}

Status AuditFileFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                           RenameMode mode) {
  WARREN_TRY(check_place(parent, name));
  WARREN_TRY(check_place(new_parent, new_name));
  return inner().rename(parent, name, new_parent, new_name, mode);
}

// The file comes last. A cookie above all others of the tree stands for it.
class AuditFileFs::Stream final : public DirStream {
 public:
  Stream(AuditFileFs& fs, std::unique_ptr<DirStream> inner) : fs_(fs), inner_(std::move(inner)) {}

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    if (cookie == kLastCookie) return std::vector<DirEntry>();
    std::vector<DirEntry> page;
    for (;;) {
      page = WARREN_TRY(inner_->read(cookie, max, detail));
      if (page.empty()) break;
      cookie = page.back().cookie;
      std::erase_if(page, [](const DirEntry& entry) { return entry.name == kAuditFile; });  // it is covered
      if (!page.empty()) return page;
    }
    DirEntry file{
        .cookie = kLastCookie, .name = std::string(kAuditFile), .inode = kInode, .type = S_IFREG, .attributes = {}};
    if (detail == DirDetail::kAttributes) file.attributes = WARREN_TRY(fs_.attributes());
    page.push_back(std::move(file));
    return page;
  }

 private:
  static constexpr std::uint64_t kLastCookie = (std::uint64_t{1} << 60) + 1;
  AuditFileFs& fs_;
  std::unique_ptr<DirStream> inner_;
};

Result<std::unique_ptr<DirStream>> AuditFileFs::open_dir(Inode dir) {
  if (is_file(dir)) return Error(Code::kNotDirectory, "it is not a directory");
  bool is_here = WARREN_TRY(is_folder(dir));
  std::unique_ptr<DirStream> stream = WARREN_TRY(inner().open_dir(dir));
  if (!is_here) return stream;
  return std::unique_ptr<DirStream>(new Stream(*this, std::move(stream)));
}

Result<std::vector<EntryName>> AuditFileFs::list_names_of(Inode node) {
  if (!is_file(node)) return inner().list_names_of(node);
  Attributes folder = WARREN_TRY(inner().lookup(kRootInode, kAuditFolder));
  return std::vector<EntryName>{{.parent = folder.inode, .name = std::string(kAuditFile)}};
}

// Nodes.

Result<Attributes> AuditFileFs::get_attributes(Inode node) {
  return is_file(node) ? attributes() : inner().get_attributes(node);
}

Result<Attributes> AuditFileFs::set_attributes(Inode node, const AttributeChanges& changes) {
  if (is_file(node)) return refuse_change();
  return inner().set_attributes(node, changes);
}

Result<std::string> AuditFileFs::read_link(Inode node) {
  if (is_file(node)) return Error(Code::kInvalid, "it is not a symbolic link");
  return inner().read_link(node);
}

Status AuditFileFs::retain(Inode node) { return is_file(node) ? Status(Ok{}) : inner().retain(node); }
void AuditFileFs::forget(Inode node, std::uint64_t count) {
  if (!is_file(node)) inner().forget(node, count);
}
Result<Attributes> AuditFileFs::open(Inode node) { return is_file(node) ? attributes() : inner().open(node); }
void AuditFileFs::release(Inode node) {
  if (!is_file(node)) inner().release(node);
}

// Content.

Result<std::size_t> AuditFileFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  if (!is_file(node)) return inner().read(node, offset, out);
  std::string text = WARREN_TRY(log_.read_lines(offset, out.size()));
  std::copy_n(as_bytes(text).begin(), text.size(), out.begin());
  return text.size();
}

Status AuditFileFs::write(Inode node, std::uint64_t offset, Bytes data) {
  if (is_file(node)) return refuse_change();
  return inner().write(node, offset, data);
}

Result<std::uint64_t> AuditFileFs::append(Inode node, Bytes data) {
  if (is_file(node)) return refuse_change();
  return inner().append(node, data);
}

Status AuditFileFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  if (is_file(node)) return refuse_change();
  return inner().allocate(node, mode, offset, length);
}

Result<std::uint64_t> AuditFileFs::seek_data(Inode node, std::uint64_t offset) {
  if (!is_file(node)) return inner().seek_data(node, offset);
  if (offset >= WARREN_TRY(log_.head()).end_bytes) return Error(Code::kNoData, "the file ends before");
  return offset;
}

Result<std::uint64_t> AuditFileFs::seek_hole(Inode node, std::uint64_t offset) {
  if (!is_file(node)) return inner().seek_hole(node, offset);
  std::uint64_t size = WARREN_TRY(log_.head())
  .end_bytes;
  if (offset >= size) return Error(Code::kNoData, "the file ends before");
  return size;
}

Result<std::uint64_t> AuditFileFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                              std::uint64_t length) {
  if (is_file(to)) return refuse_change();
  if (is_file(from)) return Error(Code::kCrossDevice, "the audit trail is not a file of the tree: read it");
  return inner().copy_range(from, from_offset, to, to_offset, length);
}

Result<Fd> AuditFileFs::open_backing(Inode node) {
  return is_file(node) ? Result<Fd>(Fd()) : inner().open_backing(node);
}
void AuditFileFs::reserve_number(Inode node, std::uint64_t generation) {
  if (!is_file(node)) inner().reserve_number(node, generation);
}
Status AuditFileFs::flush(Inode node) { return is_file(node) ? Status(Ok{}) : inner().flush(node); }
Status AuditFileFs::sync(Inode node) { return inner().sync(is_file(node) ? kRootInode : node); }

// Extended attributes.

Result<std::string> AuditFileFs::get_xattr(Inode node, std::string_view name) {
  if (is_file(node)) return Error(Code::kNoData, "it has no such attribute");
  return inner().get_xattr(node, name);
}
Result<std::vector<std::string>> AuditFileFs::list_xattrs(Inode node) {
  if (is_file(node)) return std::vector<std::string>();
  return inner().list_xattrs(node);
}
Status AuditFileFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  if (is_file(node)) return refuse_change();
  return inner().set_xattr(node, name, value, mode);
}
Status AuditFileFs::remove_xattr(Inode node, std::string_view name) {
  if (is_file(node)) return refuse_change();
  return inner().remove_xattr(node, name);
}
Result<FileSystemStats> AuditFileFs::stats(Inode node) { return inner().stats(is_file(node) ? kRootInode : node); }

}  // namespace warren
