#include "sim/strategies/fsdp1/limiter.hpp"

namespace stepcast::fsdp1 {
namespace {

const Name rule_limiter("fsdp1.limit-all-gathers");

}  // namespace

void Limiter::freed_after(OpIndex op) {
  if (!enabled_) return;
  const Op& done = builder_.op(op);
  Event event;
  event.op = op;
  event.key = {done.phase, done.unit};
  event.micro_batch = done.micro_batch;
  event.verb = done.verb;
  queue_.push_back(event);
}

void Limiter::before_gather() {
  if (!enabled_ || queue_.size() < 2) return;
  const Event event = queue_.front();
  queue_.pop_front();
  const OpRef ref{event.op, static_cast<std::int8_t>(event.previous_step ? 1 : 0)};
  builder_.rule(rule_limiter);
  const OpIndex wait = builder_.host_wait(std::span<const OpRef>(&ref, 1));
  builder_.rule(Name());
  if (event.previous_step) pending_.push_back({builder_.op(wait).waits.first, event});
}

void Limiter::end_step() {
  for (const Pending& pending : pending_) {
    const OpIndex op = builder_.find(pending.event.key.first, pending.event.verb,
                                     pending.event.key.second, pending.event.micro_batch);
    STEPCAST_ASSERT(op >= 0, "the limiter waits for an op that the step does not have");
    builder_.set_ref(pending.ref, {op, 1});
  }
  pending_.clear();
  for (Event& event : queue_) event.previous_step = true;
}

}  // namespace stepcast::fsdp1
