#include "relay/attachments/attachment_hasher.h"

#include <utility>

namespace warren::relay {

Result<std::unique_ptr<AttachmentHasher>> AttachmentHasher::open(const AttachmentStore& store) {
  auto results = WARREN_TRY(Results::open());
  return std::unique_ptr<AttachmentHasher>(new AttachmentHasher(store, std::move(results)));
}

Status AttachmentHasher::request(const std::string& hash) {
  return request(hash, [this, hash](const std::atomic<bool>& stop) { return store_.verify(hash, stop); });
}

Status AttachmentHasher::request(const std::string& key, Work work) {
  if (requested_.contains(key)) return Ok{};
  auto job = [this, key, work = std::move(work)] { results_->put({key, work(worker_.is_stopping())}); };
  WARREN_TRY(worker_.submit(std::move(job)).within("read an attachment"));
  requested_.insert(key);
  return Ok{};
}

std::vector<Hashed> AttachmentHasher::take() {
  std::vector<Hashed> done = results_->take();
  for (const Hashed& one : done) requested_.erase(one.key);
  return done;
}

}  // namespace warren::relay
