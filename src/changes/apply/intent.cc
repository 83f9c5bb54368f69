#include "changes/apply/intent.h"

#include <algorithm>
#include <limits>

namespace warren {
namespace {

// Of the same length. Older versions are still read: what they kept can be undone.
constexpr std::string_view kMagic = "warren-apply-6\n";
constexpr std::string_view kMagicWithoutWritten = "warren-apply-5\n";  // without AppliedChange::written
constexpr std::string_view kMagicWithoutContent = "warren-apply-4\n";
constexpr std::string_view kMagicWithoutTops = "warren-apply-3\n";  // and without Step::content

// Of an AppliedChange.
constexpr std::uint64_t kPartial = 1;
constexpr std::uint64_t kMerged = 2;
constexpr std::uint64_t kUnseen = 4;
constexpr std::uint64_t kBringsUnseen = 8;
constexpr std::uint64_t kOwn = 16;          // AppliedChange::own follows
constexpr std::uint64_t kOwnAncestor = 32;  // and its ancestor
constexpr std::uint64_t kOwnMetadata = 64;

// Numbers are eight bytes, little-endian; a text is preceded by its length.
class Writer {
 public:
  Writer() : out_(kMagic) {}
  void number(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) out_ += static_cast<char>((value >> (8 * i)) & 0xffU);
  }
  void text(std::string_view value) {
    number(value.size());
    out_ += value;
  }
  void time(Timestamp value) {
    number(static_cast<std::uint64_t>(value.seconds));
    number(static_cast<std::uint64_t>(static_cast<std::int64_t>(value.nanoseconds)));
  }
  void node(const HostNode& value) {
    number(value.device);
    number(value.inode);
    number(value.type);
    number(value.size);
    time(value.mtime);
  }
  void metadata(const HostMetadata& value) {
    number(value.mode);
    number(value.uid);
    number(value.gid);
    time(value.atime);
    time(value.mtime);
    number(value.xattrs.size());
    for (const auto& [name, content] : value.xattrs) {
      text(name);
      text(content);
    }
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// After the first error everything reads as empty; is_good() tells whether there was one.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {
    has_written_ = rest_.starts_with(kMagic);
    has_content_ = has_written_ || rest_.starts_with(kMagicWithoutWritten);
    has_tops_ = has_content_ || rest_.starts_with(kMagicWithoutContent);
    is_good_ = has_tops_ || rest_.starts_with(kMagicWithoutTops);
    rest_.remove_prefix(std::min(rest_.size(), kMagic.size()));
  }
  bool is_good() const { return is_good_; }
  bool has_tops() const { return has_tops_; }
  bool has_content() const { return has_content_; }
  bool has_written() const { return has_written_; }
  bool is_at_end() const { return rest_.empty(); }

  std::uint64_t number() {
    if (rest_.size() < 8) return fail();
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest_[static_cast<std::size_t>(i)])) << (8 * i);
    }
    rest_.remove_prefix(8);
    return value;
  }
  std::uint32_t small() {
    std::uint64_t value = number();
    return value > std::numeric_limits<std::uint32_t>::max() ? static_cast<std::uint32_t>(fail())
                                                             : static_cast<std::uint32_t>(value);
  }
  std::uint64_t flags(std::uint64_t known) {
    std::uint64_t value = number();
    return (value & ~known) != 0 ? fail() : value;
  }
  // The number of items that follow; each takes at least eight bytes.
  std::uint64_t count() {
    std::uint64_t value = number();
    return value > rest_.size() / 8 ? fail() : value;
  }
  std::string text() {
    std::uint64_t size = number();
    if (size > rest_.size()) {
      fail();
      return {};
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }
  Timestamp time() {
    auto seconds = static_cast<std::int64_t>(number());
    auto nanoseconds = static_cast<std::int64_t>(number());
    if (nanoseconds < 0 || nanoseconds > 999'999'999) fail();
    return {seconds, static_cast<std::int32_t>(nanoseconds)};
  }
  HostNode node() {
    HostNode value;
    value.device = number();
    value.inode = number();
    value.type = small();
    value.size = number();
    value.mtime = time();
    return value;
  }
  HostMetadata metadata() {
    HostMetadata value;
    value.mode = small();
    value.uid = small();
    value.gid = small();
    value.atime = time();
    value.mtime = time();
    for (std::uint64_t left = count(); left > 0 && is_good_; --left) {
      std::string name = text();
      value.xattrs[name] = text();
    }
    return value;
  }

 private:
  std::uint64_t fail() {
    is_good_ = false;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool is_good_ = true;
  bool has_tops_ = false;
  bool has_content_ = false;
  bool has_written_ = false;
};

void write_step(Writer& out, const Step& step) {
  out.number(static_cast<std::uint64_t>(step.kind));
  out.text(step.path);
  out.number(step.slot);
  out.number(step.backup);
  out.node(step.old_node);
  out.node(step.new_node);
  out.number(step.tree);
  out.number(step.content);
  bool has_metadata = step.kind == StepKind::kSetMetadata || step.kind == StepKind::kOverwrite;
  if (!has_metadata) return;
  out.metadata(step.before);
  out.metadata(step.after);
}

bool read_step(Reader& in, Step& step) {
  std::uint64_t kind = in.number();
  if (kind < 1 || kind > 5) return false;
  step.kind = static_cast<StepKind>(kind);
  step.path = in.text();
  step.slot = in.number();
  step.backup = in.number();
  step.old_node = in.node();
  step.new_node = in.node();
  step.tree = in.number();
  if (in.has_content()) step.content = in.number();
  bool has_metadata = step.kind == StepKind::kSetMetadata || step.kind == StepKind::kOverwrite;
  if (has_metadata) {
    step.before = in.metadata();
    step.after = in.metadata();
  }
  return in.is_good();
}

bool read_change(Reader& in, AppliedChange& change) {
  std::uint64_t kind = in.number();
  if (kind > static_cast<std::uint64_t>(TreeChangeKind::kAdded)) return false;
  change.kind = static_cast<TreeChangeKind>(kind);
  change.path = in.text();
  change.base_path = in.text();
  change.type = in.small();
  change.upper = Inode{in.number()};
  change.size = in.number();
  change.mtime = in.time();
  change.ctime = in.time();
  std::uint64_t flags = in.flags(kPartial | kMerged | kUnseen | kBringsUnseen | kOwn | kOwnAncestor | kOwnMetadata);
  change.is_partial = (flags & kPartial) != 0;
  change.is_merged = (flags & kMerged) != 0;
  change.has_unseen = (flags & kUnseen) != 0;
  change.brings_unseen = (flags & kBringsUnseen) != 0;
  if (in.has_written()) change.written = in.node();
  if ((flags & kOwn) != 0) change.own = AppliedChange::Own{.content = in.text(), .ancestor = {}};
  if (change.own && (flags & kOwnAncestor) != 0) change.own->ancestor = in.text();
  if (change.own && (flags & kOwnMetadata) != 0) change.own->metadata = in.metadata();
  return in.is_good();
}

// A node that is overwritten in place may have another name that is replaced: the name must be replaced first, while
// the node is unchanged.
int phase_of(const Step& step) {
  if (step.kind == StepKind::kTakeOut) return 0;
  bool is_dir = step.old_node.type == S_IFDIR;
  bool is_in_place = step.kind == StepKind::kSetMetadata || step.kind == StepKind::kOverwrite;
  if (is_in_place && !is_dir) return 2;
  bool closes_dir = is_in_place && (step.before.mode & 0200U) != 0;
  return closes_dir ? 3 : 1;
}

}  // namespace

std::string encode(const Intent& intent) {
  Writer out;
  out.text(intent.staging);
  out.number(intent.steps.size());
  for (const Step& step : intent.steps) write_step(out, step);
  out.number(intent.changes.size());
  for (const AppliedChange& change : intent.changes) {
    out.number(static_cast<std::uint64_t>(change.kind));
    out.text(change.path);
    out.text(change.base_path);
    out.number(change.type);
    out.number(change.upper.value);
    out.number(change.size);
    out.time(change.mtime);
    out.time(change.ctime);
    bool has_ancestor = change.own && change.own->ancestor;
    bool has_metadata = change.own && change.own->metadata;
    out.number((change.is_partial ? kPartial : 0) | (change.is_merged ? kMerged : 0) |
               (change.has_unseen ? kUnseen : 0) | (change.brings_unseen ? kBringsUnseen : 0) |
               (change.own ? kOwn : 0) | (has_ancestor ? kOwnAncestor : 0) | (has_metadata ? kOwnMetadata : 0));
    out.node(change.written);
    if (change.own) out.text(change.own->content);
    if (has_ancestor) out.text(*change.own->ancestor);
    if (has_metadata) out.metadata(*change.own->metadata);
  }
  out.number(intent.tops.size());
  for (const std::string& top : intent.tops) out.text(top);
  return out.take();
}

Result<Intent> decode_intent(std::string_view bytes) {
  Reader in(bytes);
  Intent intent;
  intent.staging = in.text();
  bool is_good = in.is_good();
  for (std::uint64_t left = in.count(); left > 0 && is_good; --left) {
    is_good = read_step(in, intent.steps.emplace_back());
  }
  for (std::uint64_t left = in.count(); left > 0 && is_good; --left) {
    is_good = read_change(in, intent.changes.emplace_back());
  }
  std::uint64_t tops = in.has_tops() ? in.count() : 0;
  for (; tops > 0 && in.is_good(); --tops) intent.tops.push_back(in.text());
  for (const Step& step : intent.steps) {
    is_good = is_good && std::max(step.slot, step.backup) / kSlotsPerTop <= intent.tops.size();
  }
  if (!is_good || !in.is_good() || !in.is_at_end())
    return Error(Code::kCorrupt, "the steps in the record of the apply are invalid");
  return intent;
}

void sort_steps(std::vector<Step>& steps) {
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    int phase_a = phase_of(a);
    int phase_b = phase_of(b);
    if (phase_a != phase_b) return phase_a < phase_b;
    return phase_a == 1 || phase_a == 2 ? a.path < b.path : a.path > b.path;
  });
}

}  // namespace warren
