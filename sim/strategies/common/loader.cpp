#include "sim/strategies/common/loader.hpp"

#include <algorithm>

namespace stepcast {
namespace {

const Name verb_read("read_batch");
const Name rule_workers("loader.workers");
const Name rule_main("loader.main-process");

// A wait looks back at most this many steps (OpRef holds 127). Beyond, a deeper queue changes
// nothing that a few simulated steps could show.
constexpr int most_steps_back = 100;

}  // namespace

void Loader::next_batch(int micro_batch) {
  const LoaderOptions& options = step_.loader;
  if (!options.modelled) return;
  const Bytes bytes = options.sample_bytes * step_.workload.micro_batch;
  builder_.at(Phase::load, -1, micro_batch);
  if (options.workers == 0) {
    builder_.rule(rule_main);
    builder_.storage(verb_read, bytes, {}, {});
    return;
  }
  const auto count = static_cast<std::size_t>(step_.accumulation);
  const auto m = static_cast<std::size_t>(micro_batch);
  if (micro_batch == 0) {
    taken_.assign(count, -1);
    unsettled_.assign(count, -1);
  }
  const LaneIndex main = builder_.lane("main");
  builder_.rule(rule_workers);
  builder_.on_lane(builder_.lane("loader"));
  read_ahead(micro_batch);
  const OpRef read{builder_.storage(verb_read, bytes, {}, {}), 0};
  builder_.on_lane(main);
  taken_[m] = builder_.host_wait(std::span<const OpRef>(&read, 1));
  if (unsettled_[m] < 0) return;
  OpRef ref = builder_.peek().refs[static_cast<std::size_t>(unsettled_[m])];
  ref.op = taken_[m];
  builder_.set_ref(unsettled_[m], ref);
}

// The loader's turn to read this batch comes when the one that is workers x prefetch batches
// earlier is taken.
void Loader::read_ahead(int micro_batch) {
  const int ahead =
      std::min(step_.loader.workers * step_.loader.prefetch, most_steps_back * step_.accumulation);
  int earlier = micro_batch - ahead;
  int steps_back = 0;
  for (; earlier < 0; earlier += step_.accumulation) ++steps_back;
  const OpIndex taken = taken_[static_cast<std::size_t>(earlier)];
  const OpRef ref{std::max<OpIndex>(taken, 0), static_cast<std::int8_t>(steps_back)};
  const OpIndex wait = builder_.host_wait(std::span<const OpRef>(&ref, 1));
  // Taken later in this program: the reference is set then.
  if (taken < 0) unsettled_[static_cast<std::size_t>(earlier)] = builder_.op(wait).waits.first;
}

}  // namespace stepcast
