#include "relay/rounds.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/stat.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "os/error.h"
#include "os/processes/process.h"
#include "os/threads/turn.h"
#include "relay/delivery/inbox_file.h"
#include "relay/ledger/open_ledger.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::size_t kRecoverPage = 256;  // small: a start that is killed again and again still makes progress
constexpr std::size_t kBodiesPage = 1024;
constexpr int kFinishRounds = 64;

// Changes with every start of the machine, and for a copy of the directory: as long as it is the same, the directory is
// as we left it, synced or not.
std::string file_life(int dir) {
  struct ::stat facts {};
  if (::fstat(dir, &facts) != 0) return "";
  return fmt::format("{} {} {}", current_process().boot, facts.st_dev, facts.st_ino);
}

std::uint64_t seed_of_process() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Rounds::Rounds(const Environment& all, ConfigFile& config_file, LauncherOptions launch, Opened opened)
    : root_(all.root),
      config_(all.config),
      config_file_(config_file),
      clock_(all.clock),
      log_(all.log),
      metrics_(all.metrics),
      router_(config_.lead),
      ledger_(std::move(opened.ledger)),
      all_{all, router_, *ledger_},
      attachments_(std::move(opened.attachments)),
      watcher_(std::move(opened.watcher)),
      mailroom_(root_),
      stamps_(clock_),
      records_(all_, arrivals_),
      notices_(all_),
      repair_(all_, records_, mailroom_, stamps_),
      upkeep_(all_, records_, *watcher_),
      supervisor_(config_.spawn, clock_),
      registry_(all_, *watcher_, supervisor_, waiting_),
      lives_(all_, std::move(launch), {records_, notices_, registry_, supervisor_}),
      continuity_(all_, notices_),
      fresh_(root_, mailroom_.syncs(), clock_),
      bodies_(*ledger_),
      news_(clock_),
      random_(seed_of_process()),
      retries_(clock_, random_),
      courier_(all_, *attachments_, lives_),
      routed_(all_, {courier_, notices_, stamps_, waiting_}),
      archivist_(root_, log_),
      syncer_([this] { return ledger_->engine().sync(); },
              [this](std::vector<Filing> filings) { return archivist_.file(std::move(filings)); }) {
  if (ledger_->homes() != nullptr) router_.set_home(ledger_->homes()->id());
}

Result<std::unique_ptr<Rounds>> Rounds::open(const Environment& all, ConfigFile& config_file, LauncherOptions launch) {
  Opened opened;
  opened.ledger = WARREN_TRY(open_ledger(all.root, all.config, LedgerUse::kServe, all.clock));
  opened.attachments = WARREN_TRY(Attachments::open(all.root, *opened.ledger, all.config, all.clock, all.log));
  opened.watcher = WARREN_TRY(Watcher::open(all.root, all.config, all.clock, all.log));
  std::unique_ptr<Rounds> rounds(new Rounds(all, config_file, std::move(launch), std::move(opened)));
  Status recovered = rounds->recover().within("recover");
  rounds->must_recover_ = rounds->ledger_->engine().is_lost();  // the first round connects again
  if (!rounds->must_recover_) WARREN_TRY(std::move(recovered));
  // A copy of the config: it is called by another thread.
  WARREN_TRY(rounds->upkeep_.start([all, config = all.config] {  //
    return open_ledger(all.root, config, LedgerUse::kRead, all.clock);
  }));
  return rounds;
}

Status Rounds::recover() {
  if (!root_.repaired().empty()) log_.audit("permissions_repaired", {{"files", root_.repaired()}});
  std::vector<AgentRow> agents = WARREN_TRY(ledger_->list_agents());
  for (const AgentRow& agent : agents) {
    router_.put_agent(agent);
    if (agent.status == "active") waiting_.add(agent.name);  // it may have become so just before a crash
  }
  auto subscriptions = WARREN_TRY(ledger_->list_subscriptions());
  router_.set_subscriptions(std::move(subscriptions));
  WARREN_TRY(lives_.recover(must_recover_));
  arrivals_.clear();
  WARREN_TRY(ledger_->enter_all());
  std::int64_t newest = WARREN_TRY(ledger_->newest_inbox_ns());
  stamps_.note_used(newest);
  std::string life = file_life(root_.deliveries());
  std::optional<std::string> former = WARREN_TRY(ledger_->find_value("file_life"));
  bool is_after_power_cut = former && *former != life;
  bodies_.set_kept(false);  // for the reports of recovery itself, since it drops all bodies at its end
  WARREN_TRY(recover_read(is_after_power_cut));
  std::int64_t resumed = WARREN_TRY(resume(is_after_power_cut));
  WARREN_TRY(remove_orphans());
  if (is_after_power_cut) WARREN_TRY(repair_.repair());
  auto transaction = WARREN_TRY(ledger_->begin());
  ProcessIdentity self = current_process();
  Json process = {
      {"boot", self.boot}, {"pid_namespace", self.pid_namespace}, {"pid", self.pid}, {"started", self.started}};
  WARREN_TRY(ledger_->put_value("process", dump_json(process)));
  WARREN_TRY(ledger_->put_value("started_at", std::to_string(clock_.now_us())));
  WARREN_TRY(ledger_->put_value("file_life", life));
  WARREN_TRY(ledger_->drop_bodies());
  WARREN_TRY(transaction.commit());
  bodies_.set_kept(ledger_->homes() == nullptr);
  routed_.want();
  if (routed_.is_wanted()) registry_.note_stale();
  registry_.add_all();
  log_.note(Severity::kInfo, std::exchange(has_recovered_, true) ? "recovered" : "started",
            {{"pid", self.pid}, {"agents", router_.agents().size()}, {"resumed", resumed}});
  return Ok{};
}

// A power cut may have removed a file that was read before its receiver did anything with it: then it is delivered
// again. If there was no cut, the directories are synced, so that it cannot happen any more.
Status Rounds::recover_read(bool is_after_power_cut) {
  bodies_.clear();
  for (std::int64_t after = 0;;) {
    std::vector<UnsyncedBody> page = WARREN_TRY(ledger_->list_bodies(after, kBodiesPage));
    if (page.empty()) break;
    after = page.back().stamp;
    auto transaction = WARREN_TRY(ledger_->begin());
    for (const UnsyncedBody& body : page) {
      std::vector<Delivery> deliveries = WARREN_TRY(ledger_->list_deliveries(body.message_id));
      for (Delivery& delivery : deliveries) {
        if (stamp_of(delivery) != body.stamp || delivery.state != DeliveryState::kRead) continue;
        std::string content = WARREN_TRY(ledger_->find_body(delivery))
        .value_or("");
        bool is_lost = is_after_power_cut && !mailroom_.is_published(delivery, content);
        if (is_lost) WARREN_TRY(ledger_->set_state(delivery, DeliveryState::kPending));
        else fresh_.add_read(std::move(delivery));
      }
    }
    WARREN_TRY(transaction.commit());
    collect_fresh(Wait::kForAll);
  }
  return Ok{};
}

// All are published before any receipt is sent: receipts then have newer names than all of them.
Result<std::int64_t> Rounds::resume(bool is_after_power_cut) {
  std::set<std::string> failing;
  for (DueFilter filter{.limit = kRecoverPage};;) {
    std::vector<Delivery> page = WARREN_TRY(ledger_->due(filter));
    if (page.empty()) break;
    filter.after = page.back().id;
    WARREN_TRY(publish_again(page, is_after_power_cut, failing));
  }
  std::int64_t resumed = 0;
  for (DueFilter filter{.limit = kRecoverPage};;) {
    std::vector<Delivery> page = WARREN_TRY(ledger_->due(filter));
    if (page.empty()) break;
    filter.after = page.back().id;
    resumed += static_cast<std::int64_t>(page.size());
    WARREN_TRY(record_again(page));
  }
  return resumed;
}

// Renaming a file a second time does nothing: see Mailroom. Failures are handled by record_again(); later deliveries to
// the same recipient must not overtake.
//
// Staged files whose content the ledger has were not synced. A killed relay finds them as it left them. After a power
// cut they may be lost or empty, so every file that the recipient does not have is staged again. Larger files were
// synced, but a rename that the cut interrupted may have lost one: its content is in the archive or the outbox.
Status Rounds::publish_again(const std::vector<Delivery>& page, bool is_after_power_cut,
                             std::set<std::string>& failing) {
  for (const Delivery& delivery : page) {
    std::optional<std::string> body = WARREN_TRY(ledger_->find_body(delivery));
    bool may_be_lost = !body && is_after_power_cut && !mailroom_.is_staged(delivery);
    if (may_be_lost) {
      Result<Message> message = records_.load(delivery.message_id);
      if (!message.ok() && is_shortage(message.error())) return message.error();
      if (message.ok()) {
        std::string sender = delivery.message_id.substr(0, delivery.message_id.find('/'));
        body = render(*message, sender, delivery.message_id);
      }
    }
    if (!body) continue;
    bool is_to_come = is_after_power_cut ? !mailroom_.is_published(delivery, *body) : mailroom_.is_staged(delivery);
    if (is_to_come) WARREN_TRY(mailroom_.stage(delivery, *body));
  }
  WARREN_TRY(mailroom_.sync_staged());
  for (const Delivery& delivery : page) {
    if (failing.contains(delivery.recipient)) continue;
    if (!mailroom_.publish(delivery).ok()) failing.insert(delivery.recipient);
  }
  return Ok{};
}

// Receipts are sent now: had they been sent before, the delivery would not be pending.
Status Rounds::record_again(const std::vector<Delivery>& page) {
  for (const Delivery& delivery : page) publish_one(delivery);
  collect_fresh(Wait::kForAll);
  metrics_.add(Tally::kDelivered, news_.changes().size());
  Plan plan;
  WARREN_TRY(plan_changes(plan, DeliveryNews::Share::kAll));
  assign_names(plan);
  WARREN_TRY(stage(plan));
  WARREN_TRY(commit(plan, *mailroom_.begin_sync_staged()));
  publish(plan);
  return Ok{};
}

// Staged by a round that never committed: nothing refers to them, and their senders' files are in the outboxes.
Status Rounds::remove_orphans() {
  std::vector<std::string> staged = WARREN_TRY(mailroom_.list_staged());
  for (const std::string& file : staged) {
    std::size_t end = file.find(".msg.");
    std::optional<Delivery> delivery;
    if (end != file.npos) {
      delivery = WARREN_TRY(
          ledger_->find_in_inbox(std::string_view(file).substr(end + 5), std::string_view(file).substr(0, end + 4)));
    }
    if (!delivery || delivery->state != DeliveryState::kPending) mailroom_.remove_staged(file);
  }
  return Ok{};
}

// Between rounds.
void Rounds::reread_config() {
  std::optional<ConfigFile::Change> change = config_file_.reread();
  if (!change) return;
  if (change->error) {
    metrics_.set_config_remark(config_refusal(*change->error));
    log_.note(Severity::kError, "config_refused", {{"error", change->error->message()}});
  } else if (change->is_removed) {
    metrics_.set_config_remark("");
  } else {
    bool is_complete = change->postponed.empty();
    metrics_.set_config_remark(is_complete ? ""
                                           : fmt::format("config.json: {} will be used at the next start",
                                                         fmt::join(change->postponed, ", ")));
    use_new_config();
    log_.note(Severity::kInfo, "config_read", {{"used_at_next_start", change->postponed}});
  }
  note_metrics_change();
}

// For the parts that keep copies of their settings. The others see config_.
void Rounds::use_new_config() {
  log_.set_options(config_.log_bytes_max, {config_.log_level, config_.log_files});
  router_.set_lead(config_.lead);
  if (!router_.find_lead().empty()) waiting_.add(std::string(kLead));
  watcher_->note_rescan();
  attachments_->start_sweep(config_.attachment_keep.count());
  upkeep_.use_new_config();
}

void Rounds::rescan() {
  reread_config();
  watcher_->note_rescan();
  upkeep_.check_disk();
  registry_.add_all();
  for (const auto& [name, agent] : router_.agents()) watcher_->clean_pending(name);
  lives_.watch_superiors();
  registry_.note_inactive();
}

std::string Rounds::archive_path(std::string_view agent, std::string_view file) {
  return fmt::format("archive/{:%Y-%m-%d}/{}/{}", fmt::gmtime(clock_.now().seconds), agent, file);
}

std::int64_t Rounds::wake_at_ns() const {
  if (paused_until_ns_ != 0) return paused_until_ns_;
  std::int64_t at = std::min({retries_.at_ns(), routed_.at_ns(), watcher_->wake_at_ns().value_or(INT64_MAX)});
  at = std::min({at, supervisor_.wake_at_ns(), fresh_.wake_at_ns()});
  if (has_news()) at = std::min(at, news_.wake_at_ns(load_with(Plan())));
  if (!watcher_->has_backlog()) at = std::min(at, attachments_->sweep_at_ns());
  at = std::min(at, upkeep_.wake_at_ns());
  if (trials_.has_suspects()) at = std::min(at, trials_.at_ns());
  else if (operations_wanted_) at = 0;
  if (waiting_.has_work() || news_.has_inbox_checks()) at = 0;
  if (routed_.is_wanted() || registry_.is_stale() || must_recover_) at = 0;
  return at;
}

// Resumes whatever waited for an attachment to be hashed: senders by name, everything else by "".
void Rounds::take_hashed() {
  for (const std::string& waiter : attachments_->take_hashed()) {
    if (!waiter.empty()) {
      watcher_->resume(waiter);
      continue;
    }
    waiting_.resume_all();
    routed_.resume();
    operations_wanted_ = true;
    routed_.want();
  }
}

Status Rounds::sleep(int stop) {
  std::int64_t wait_ns = std::max<std::int64_t>(0, wake_at_ns() - clock_.monotonic_ns());
  if (wake_at_ns() >= dirs_until_ns_) mailroom_.forget_dirs();  // they stay open over a short pause
  timespec wait{wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
  std::vector<pollfd> all{{stop, POLLIN, 0},
                          {watcher_->fd(), POLLIN, 0},
                          {mailroom_.syncs().fd(), POLLIN, 0},
                          {syncer_.fd(), POLLIN, 0},
                          {attachments_->fd(), POLLIN, 0},
                          {attachments_->carrier_fd(), POLLIN, 0},
                          {ledger_->engine().fd(), POLLIN, 0}};
  supervisor_.add_pollfds(all);
  if (::ppoll(all.data(), all.size(), &wait, nullptr) < 0 && errno != EINTR) return system_error(errno, "poll");
  if (all[2].revents != 0) mailroom_.syncs().clear();
  if (all[3].revents != 0) syncer_.clear();
  return Ok{};
}

void Rounds::on_poke() {
  operations_wanted_ = true;
  if (!root_.has_lost_lock()) return;
  Status locked = root_.lock();
  if (locked.ok()) locked = root_.note_holder(current_process());
  if (locked.ok()) locked = watcher_->watch_lock();
  log_.audit("lock_removed", {{"made_again", locked.ok()}});
}

Status Rounds::run(int stop) {
  take_short_turns();
  pollfd stopping{stop, POLLIN, 0};
  while (::poll(&stopping, 1, 0) <= 0) {
    metrics_.set_busy_since(clock_.monotonic_ns());
    supervisor_.poll();  // before events: an agent's last messages precede the report of its end
    watcher_->take_events();
    if (watcher_->rescan_is_due()) rescan();
    if (watcher_->take_agents_changed()) registry_.add_all();
    if (watcher_->take_config_changed()) reread_config();
    if (watcher_->take_poke()) on_poke();
    take_hashed();
    hear_news();
    bool is_paused = paused_until_ns_ > clock_.monotonic_ns();
    if (!is_paused) paused_until_ns_ = 0;
    if (!is_paused && WARREN_TRY(round())) continue;
    if (!is_paused && !watcher_->has_backlog() && attachments_->sweep()) continue;
    if (!is_paused && run_idle_work()) continue;
    metrics_.set_busy_since(0);
    WARREN_TRY(sleep(stop));
  }
  finish();
  return Ok{};
}

bool Rounds::run_idle_work() {
  if (std::exchange(failures_, 0) > 0) upkeep_.note_failure_over();
  return upkeep_.run_idle_work();
}

void Rounds::finish() {
  collect_fresh(Wait::kForAll);
  is_ending_ = true;
  for (int tries = 0; tries < kFinishRounds && has_news() && !ledger_->engine().is_lost(); ++tries) {
    round().ignore("changes that are not recorded now are found again by the next start");
  }
  syncer_.wait_filed(asked_).ignore("files stay in their outboxes, and the next start finds that they were taken");
  log_.note(Severity::kInfo, "stopped", Json::object());
}

}  // namespace warren::relay
