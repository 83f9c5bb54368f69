#include "relay/attachments/attachment_hasher.h"

#include <utility>

namespace warren::relay {

Result<std::unique_ptr<AttachmentHasher>> AttachmentHasher::open(const AttachmentStore& store) {
  auto results = WARREN_TRY(Results::open());
  return std::unique_ptr<AttachmentHasher>(new AttachmentHasher(store, std::move(results)));
}

Status AttachmentHasher::request(const std::string& hash) {
  if (requested_.contains(hash)) return Ok{};
  auto verify = [this, hash] { results_->put({hash, store_.verify(hash, worker_.is_stopping())}); };
  WARREN_TRY(worker_.submit(verify).within("read an attachment"));
  requested_.insert(hash);
  return Ok{};
}

std::vector<Hashed> AttachmentHasher::take() {
  std::vector<Hashed> done = results_->take();
  for (const Hashed& one : done) requested_.erase(one.hash);
  return done;
}

}  // namespace warren::relay
