// A blob store that is a program of the user's, which speaks JSON lines on its standard input and output:
// docs/backends.md.
//
// The program is started with the first call and again after it ended. A call that gets no answer in time, or something
// that is not an answer, ends the program and is kUnavailable; calls that only read are tried once more. Calls that
// wait for their turn while another one gets no answer fail with it, as do those of a short time after that: however
// many there are, a program that hangs delays them by its timeout once. A program ends with the process that started
// it, even if that is killed and the program does not read its input. What it writes to its standard error is passed on
// to ours during calls.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include <sys/types.h>

#include "backends/blob/blob_store.h"
#include "base/json.h"
#include "os/fd.h"

namespace warren {

struct ExecOptions {
  std::string command;    // for /bin/sh
  std::string directory;  // where it runs; empty: the current one
  std::chrono::milliseconds timeout{10'000};
};

// Thread-safe: one call at a time.
class ExecBlobs final : public BlobStore {
 public:
  static constexpr std::uint64_t kLargest = std::uint64_t{64} << 20;

  // Starts the program, to learn what it can do. kUnavailable if it does not say so.
  static Result<std::unique_ptr<ExecBlobs>> open(ExecOptions options, Clock& clock);
  ~ExecBlobs() override;  // closes its input; kills it if it does not end then

  std::string name() const override { return "exec:" + options_.command; }
  BlobAbilities abilities() const override { return abilities_; }
  Result<std::optional<Blob>> get(std::string_view key) override;
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override;
  Result<std::optional<BlobInfo>> find(std::string_view key) override;
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options) override;
  Result<bool> remove(std::string_view key) override;
  Result<BlobPage> list(const ListOptions& options) override;
  Status apply(std::span<const BlobChange> changes) override;

 private:
  enum class Repeat { kNo, kOnce };  // whether a call may be made again after the program ended

  ExecBlobs(ExecOptions options, Clock& clock) : options_(std::move(options)), clock_(clock) {}

  Result<Json> call(Json request, Repeat repeat);
  Result<Json> call_once(const Json& request, std::int64_t deadline_ns);
  Status start(std::int64_t deadline_ns);
  Status start_watcher();
  void end(std::chrono::milliseconds patience);
  Status send_line(const std::string& line, std::int64_t deadline_ns);
  Result<std::string> receive_line(std::int64_t deadline_ns);
  Result<Json> receive_object(std::int64_t deadline_ns);
  Status wait_for(int fd, short events, std::int64_t deadline_ns);
  Error broken(std::string message);
  Result<bool> remove_version(std::string_view key, const std::optional<std::string>& if_match);
  Result<std::vector<BlobInfo>> list_keys(const std::string& prefix, const std::string& after, std::size_t limit);

  const ExecOptions options_;
  Clock& clock_;
  BlobAbilities abilities_;

  std::timed_mutex mutex_;  // guards everything below
  pid_t pid_ = -1;
  pid_t watcher_ = -1;  // in the program's group, which it kills once `alive_` is closed by our end
  Fd alive_;
  std::int64_t unanswered_until_ns_ = 0;  // calls fail until then
  Fd input_;
  Fd output_;
  Fd errors_;  // what it writes for people
  std::string received_;
  std::int64_t next_id_ = 1;
};

}  // namespace warren
