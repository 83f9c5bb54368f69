// The rows of an overlay in the agent file: fs_whiteout, fs_origin, and our own tables (docs/format.md, OV).
#pragma once

#include <memory>

#include "fs/overlay/upper_layer.h"
#include "store/store.h"

namespace warren {

// Thread-safe within its units, like the store. The store outlives it.
class OverlayRows final : public UpperLayer {
 public:
  // For an agent that make_overlay, or another program, has made an overlay. Creates missing tables if the agent may
  // be written.
  static Result<std::unique_ptr<OverlayRows>> open(Store& store);
  ~OverlayRows() override;
  OverlayRows(const OverlayRows&) = delete;
  OverlayRows& operator=(const OverlayRows&) = delete;

  FileSystem& fs() override;
  Result<std::unique_ptr<Unit>> begin(UnitAccess access) override;
  Result<std::unique_ptr<Unit>> begin(UnitAccess access, Batched batched,
                                      std::unique_lock<std::recursive_mutex>& held) override;
  Status reserve(std::uint64_t bytes) override;
  std::uint64_t epoch() override;
  std::uint64_t losses() override { return store_.rollbacks(); }
  Result<bool> is_applying() override;

  Result<Inode> adopt(Inode parent, std::string_view name, const Attributes& as, std::string_view target) override;
  Status restore(Inode node, const Attributes& as) override;
  Status keep_nameless(Inode node) override;
  Status let_go(Inode node) override;
  void note_name(Inode dir, std::string_view name) override;

  Status add_whiteout(Inode upper_dir, std::string_view path, const Attributes& seen,
                      std::string_view base_path) override;
  Status remove_whiteout(std::string_view path) override;
  Status cover_whiteout(std::string_view path) override;
  Result<std::vector<LostLink>> list_lost_links() override;
  Status put_lost_link(const LostLink& link) override;
  Status remove_lost_link(std::string_view base_path) override;
  Status move_whiteouts_below(std::string_view from, std::string_view to) override;
  Status remove_whiteouts_below(std::string_view dir) override;
  Result<std::vector<std::string>> list_whiteouts_in(std::string_view dir) override;
  Result<std::vector<Whiteout>> list_whiteouts() override;
  Result<std::optional<Attributes>> find_removed(std::string_view path) override;
  Result<std::optional<Cover>> find_cover(std::string_view base_path) override;
  Result<std::vector<Cover>> list_covers() override;
  Status put_cover(const Cover& cover) override;
  Status remove_cover(std::string_view base_path) override;
  Result<std::vector<Cover>> list_covers_below(std::string_view base_dir) override;

  Result<std::vector<Origin>> list_origins() override;
  Status put_origin(const Origin& origin) override;
  Status remove_origin(Inode upper) override;

  Result<std::vector<ByteRange>> list_base_ranges(Inode upper) override;
  Status set_base_ranges(Inode upper, const std::vector<ByteRange>& ranges) override;
  Status keep_ancestor(Inode upper, Bytes content) override;
  Result<std::optional<std::string>> find_ancestor(Inode upper) override;

 private:
  struct Statements;
  explicit OverlayRows(Store& store);
  Status prepare();
  Status prepare_whiteouts();
  Status prepare_origins();
  Status prepare_writing();
  Status prepare_whiteout_changes();
  Status prepare_covers();
  Status collect_leftovers();
  Status reserve_row(std::size_t bytes);
  Status lose_link(const LostLink& link);
  Result<std::vector<Cover>> list_covers_between(std::string_view first, std::string_view end);
  Status rewrite_below(std::string_view from, std::string_view to);

  Store& store_;
  bool has_parent_path_ = true;  // in fs_whiteout; older programs create it without
  bool has_own_ = true;          // our tables; a read-only agent may lack them
  bool has_covers_ = true;       // wr_covered; a read-only agent may lack it
  bool has_generation_ = true;   // in wr_origin and wr_lost_link; a read-only agent may lack it
  std::uint64_t checked_transaction_ = 0;
  std::uint64_t foreign_epoch_ = 0;
  std::unique_ptr<Statements> sql_;  // created and destroyed under the database's lock
};

}  // namespace warren
