#include "relay/attachments/attachment_courier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "relay/protocol/attachment.h"

namespace warren::relay {

Result<Readiness> AttachmentCourier::take(const Message& message, const std::string& sender) {
  if (message.find(kAttachmentHeader) == nullptr) return Readiness::kReady;
  bool is_confined = root_.is_confined(sender) || lives_.is_sandboxed(sender);
  auto confined = is_confined ? Attachments::Confined::kYes : Attachments::Confined::kNo;
  if (WARREN_TRY(attachments_.take_in(message, sender, confined)) == Readiness::kWaits) return Readiness::kWaits;
  return attachments_.check(message, sender);
}

// A message for the lead is held until there is one, which may be an agent of another home.
Result<Readiness> AttachmentCourier::bring(const Message& message, const std::string& sender,
                                           const std::string& waiter) {
  if (message.find(kAttachmentHeader) == nullptr) return Readiness::kReady;
  Result<std::vector<Route>> routes = router_.resolve(message.to, sender);
  if (!routes.ok()) return Readiness::kReady;  // it will be refused
  Readiness handed = Readiness::kReady;
  for (const Route& route : *routes) {
    bool is_here = route.state == DeliveryState::kPending || route.state == DeliveryState::kStored;
    if (is_here && WARREN_TRY(attachments_.hand_out(message, route.recipient, waiter)) == Readiness::kWaits) {
      handed = Readiness::kWaits;
    }
  }
  if (handed == Readiness::kWaits || ledger_.homes() == nullptr) return handed;
  bool leaves = std::any_of(routes->begin(), routes->end(), [](const Route& route) {
    return route.state == DeliveryState::kRouted || route.state == DeliveryState::kHeld;
  });
  return leaves ? attachments_.publish(message, waiter) : Readiness::kReady;
}

Result<Readiness> AttachmentCourier::bring_again(Plan& plan, const Delivery& delivery, const Message& message) {
  std::vector<Attachment> all = WARREN_TRY(attachments_of(message));
  if (all.empty()) return Readiness::kReady;
  if (WARREN_TRY(attachments_.check_or_fetch(message, "")) == Readiness::kWaits) return Readiness::kWaits;
  if (router_.is_remote(delivery.recipient)) {
    if (WARREN_TRY(attachments_.publish(message, "")) == Readiness::kWaits) return Readiness::kWaits;
  } else {
    if (WARREN_TRY(attachments_.hand_out(message, delivery.recipient, "")) == Readiness::kWaits) {
      return Readiness::kWaits;
    }
    attachments_.note_arrived(all);
  }
  plan.attached.push_back({delivery.message_id, std::move(all)});
  return Readiness::kReady;
}

}  // namespace warren::relay
