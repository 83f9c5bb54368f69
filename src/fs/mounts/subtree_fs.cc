#include "fs/mounts/subtree_fs.h"

#include <utility>

namespace warren {

// A change of a directory above us has nothing to do with us, but the root's number would be mistaken for ours.
class SubtreeFs::Listener final : public ChangeListener {
 public:
  Listener(Inode root, ChangeListener& outer) : root_(root), outer_(outer) {}

  void entry_changed(Inode parent, std::string_view name) override {
    if (parent != kRootInode) outer_.entry_changed(outside(parent), name);
  }
  void node_changed(Inode node) override {
    if (node != kRootInode) outer_.node_changed(outside(node));
  }
  void everything_changed() override { outer_.everything_changed(); }

 private:
  Inode outside(Inode node) const { return node == root_ ? kRootInode : node; }

  Inode root_;
  ChangeListener& outer_;
};

SubtreeFs::SubtreeFs(FileSystem& inner, Inode root) : ForwardingFs(inner), root_(root) {}
SubtreeFs::~SubtreeFs() = default;

Result<Attributes> SubtreeFs::outside(Result<Attributes> found) const {
  if (found.ok() && found->inode == root_) found->inode = kRootInode;
  return found;
}

template <class R>
R SubtreeFs::counted(R result) {
  if (result.ok()) ++changes_;
  return result;
}

Result<Attributes> SubtreeFs::lookup(Inode parent, std::string_view name) {
  return inner().lookup(inside(parent), name);
}
Result<Attributes> SubtreeFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  return counted(inner().make_node(inside(parent), name, node));
}
Result<Attributes> SubtreeFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  return counted(inner().make_dir(inside(parent), name, node));
}
Result<Attributes> SubtreeFs::make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) {
  return counted(inner().make_symlink(inside(parent), name, target, owner));
}
Result<Attributes> SubtreeFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  return counted(inner().link(inside(node), inside(new_parent), new_name));
}
Status SubtreeFs::unlink(Inode parent, std::string_view name) { return counted(inner().unlink(inside(parent), name)); }
Status SubtreeFs::remove_dir(Inode parent, std::string_view name) {
  return counted(inner().remove_dir(inside(parent), name));
}
Status SubtreeFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                         RenameMode mode) {
  return counted(inner().rename(inside(parent), name, inside(new_parent), new_name, mode));
}
// Nothing below the root leads to it: a directory has one name. So the entries need no translation.
Result<std::unique_ptr<DirStream>> SubtreeFs::open_dir(Inode dir) { return inner().open_dir(inside(dir)); }

// A name outside the directory is none here. The filesystem inside may have been made by a stranger: neither its depth
// nor the absence of circles can be relied on.
Result<std::vector<EntryName>> SubtreeFs::list_names_of(Inode node) {
  std::vector<EntryName> names;
  if (node == kRootInode) return names;
  std::unordered_map<Inode, bool> known{{root_, true}};
  for (EntryName& name : WARREN_TRY(inner().list_names_of(node))) {
    if (!WARREN_TRY(is_below_root(name.parent, known))) continue;
    if (name.parent == root_) name.parent = kRootInode;
    names.push_back(std::move(name));
  }
  return names;
}

// Each directory is asked once, for all names of a node.
Result<bool> SubtreeFs::is_below_root(Inode dir, std::unordered_map<Inode, bool>& known) {
  std::vector<Inode> way;
  while (known.emplace(dir, false).second) {  // false stays if it is in a circle
    way.push_back(dir);
    std::vector<EntryName> up = WARREN_TRY(inner().list_names_of(dir));
    if (up.empty()) return false;
    dir = up.front().parent;
  }
  bool is_below = known.at(dir);
  for (Inode passed : way) known.at(passed) = is_below;
  return is_below;
}

Result<Attributes> SubtreeFs::get_attributes(Inode node) { return outside(inner().get_attributes(inside(node))); }
Result<Attributes> SubtreeFs::set_attributes(Inode node, const AttributeChanges& changes) {
  return counted(outside(inner().set_attributes(inside(node), changes)));
}
Result<std::string> SubtreeFs::read_link(Inode node) { return inner().read_link(inside(node)); }
Status SubtreeFs::retain(Inode node) { return inner().retain(inside(node)); }
void SubtreeFs::forget(Inode node, std::uint64_t count) { inner().forget(inside(node), count); }
Result<Attributes> SubtreeFs::create(Inode parent, std::string_view name, const NewNode& node) {
  return counted(inner().create(inside(parent), name, node));
}
Result<Attributes> SubtreeFs::open(Inode node) { return inner().open(inside(node)); }
void SubtreeFs::release(Inode node) { inner().release(inside(node)); }

Result<std::size_t> SubtreeFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  return inner().read(inside(node), offset, out);
}
Status SubtreeFs::write(Inode node, std::uint64_t offset, Bytes data) {
  return counted(inner().write(inside(node), offset, data));
}
Result<std::uint64_t> SubtreeFs::append(Inode node, Bytes data) { return counted(inner().append(inside(node), data)); }
Status SubtreeFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  return counted(inner().allocate(inside(node), mode, offset, length));
}
Result<std::uint64_t> SubtreeFs::seek_data(Inode node, std::uint64_t offset) {
  return inner().seek_data(inside(node), offset);
}
Result<std::uint64_t> SubtreeFs::seek_hole(Inode node, std::uint64_t offset) {
  return inner().seek_hole(inside(node), offset);
}
Result<std::uint64_t> SubtreeFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                            std::uint64_t length) {
  return counted(inner().copy_range(inside(from), from_offset, inside(to), to_offset, length));
}
Result<Fd> SubtreeFs::open_backing(Inode node) { return inner().open_backing(inside(node)); }
void SubtreeFs::reserve_number(Inode node, std::uint64_t generation) {
  inner().reserve_number(inside(node), generation);
}
Status SubtreeFs::flush(Inode node) { return inner().flush(inside(node)); }

// Syncing a root is about everything in the filesystem, which syncing a directory inside is not.
Status SubtreeFs::sync(Inode node) {
  WARREN_TRY(inner().sync(inside(node)));
  return node == kRootInode ? inner().sync(kRootInode) : Status(Ok{});
}

Result<std::string> SubtreeFs::get_xattr(Inode node, std::string_view name) {
  return inner().get_xattr(inside(node), name);
}
Result<std::vector<std::string>> SubtreeFs::list_xattrs(Inode node) { return inner().list_xattrs(inside(node)); }
Status SubtreeFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  return counted(inner().set_xattr(inside(node), name, value, mode));
}
Status SubtreeFs::remove_xattr(Inode node, std::string_view name) {
  return counted(inner().remove_xattr(inside(node), name));
}

Result<FileSystemStats> SubtreeFs::stats(Inode node) { return inner().stats(inside(node)); }

Status SubtreeFs::listen(ChangeListener* listener) {
  auto next = listener == nullptr ? nullptr : std::make_unique<Listener>(root_, *listener);
  WARREN_TRY(listen_inside(next.get()));
  listener_ = std::move(next);
  return Ok{};
}

}  // namespace warren
