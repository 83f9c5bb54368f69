#include "store/files/namespace_tree.h"

#include <fmt/format.h>

#include "base/path.h"
#include "db/statement.h"
#include "store/files/sqlite_fs.h"
#include "store/tables/usage.h"

namespace warren {
namespace {

Error no_root(std::string_view named, std::string_view why) {
  return {Code::kCorrupt, fmt::format("wr_meta names {} as the root of the namespace, which {}", named, why),
          "`warren fsck --repair` removes the name; what is in the directory is not lost"};
}

Error no_namespace(const Store& store) {
  return {Code::kNotFound, fmt::format("{} has no namespace yet", quote(store.path())),
          "it is made by the first `warren vfs` that may write, or by `warren run`"};
}

bool is_inside_unit(Database& database) {
  auto guard = database.lock();
  return database.is_in_transaction();
}

}  // namespace

// The file may be a stranger's. If the root were a directory of the first tree, whoever may write there could change
// the policy.
Result<std::optional<Inode>> SqliteFs::find_namespace_root() {
  if (!store_.schema().has_extensions) return std::optional<Inode>();
  Transaction scope = WARREN_TRY(read_scope());
  Statement query = WARREN_TRY(database_.prepare("SELECT value FROM wr_meta WHERE key = 'namespace_ino'"));
  Inode root;
  {
    Rows rows = query.rows();
    if (!WARREN_TRY(rows.next())) return std::optional<Inode>();
    bool is_number = rows.type(0) == ColumnType::kInteger && rows.integer(0) > 0;
    if (!is_number) return no_root(quote(rows.text(0)), "is not an inode");
    root = Inode{static_cast<std::uint64_t>(rows.integer(0))};
  }
  std::string named = fmt::format("inode {}", root.value);
  if (root == kRootInode) return no_root(named, "is the root of the files");
  std::optional<Attributes> row = WARREN_TRY(nodes_->find(root));
  if (!row) return no_root(named, "does not exist");
  if (!row->is_directory()) return no_root(named, "is not a directory");
  if (WARREN_TRY(nodes_->find_parent(root))) return no_root(named, "has a name");
  namespace_root_ = root;
  return std::optional(root);
}

// The row in wr_orphan says that the directory is nobody's leftover.
Status SqliteFs::make_namespace_root() {
  Transaction scope = WARREN_TRY(growth_scope(0));
  if (WARREN_TRY(find_namespace_root())) return Ok{};  // another process was faster
  WARREN_TRY(store_.usage().charge(0, 1));
  Timestamp now = clock_.now();
  Attributes node{
      .inode = {}, .mode = S_IFDIR | 0755, .nlink = 1, .owner = {}, .atime = now, .mtime = now, .ctime = now};
  node.inode = WARREN_TRY(nodes_->insert(node));
  WARREN_TRY(orphans_->keep(node.inode));
  Statement put = WARREN_TRY(database_.prepare("INSERT INTO wr_meta (key, value) VALUES ('namespace_ino', ?)"));
  WARREN_TRY(put.bind(1, node.inode.value).run());
  store_.journal()->note_attributes(node.inode);
  return scope.commit();
}

NamespaceTree::NamespaceTree(Store& store, Inode root) : SubtreeFs(store.fs(), root), store_(store) {}

Result<std::unique_ptr<NamespaceTree>> NamespaceTree::open_in(Store& store) {
  std::optional<Inode> root = WARREN_TRY(store.fs().find_namespace_root());
  if (!root) {
    if (store.is_read_only()) return no_namespace(store);
    // Committed at once, for if a unit or a batch with it were lost, its number would become another directory's.
    if (is_inside_unit(store.database())) {
      return Error(Code::kBusy, "the agent's namespace cannot be made inside a unit", "use it once before the unit");
    }
    WARREN_TRY(store.fs().make_namespace_root());
    WARREN_TRY(store.database().end_batch());
    root = WARREN_TRY(store.fs().find_namespace_root());
  }
  return std::unique_ptr<NamespaceTree>(new NamespaceTree(store, *root));
}

}  // namespace warren
