#include "sim/strategies/zero/fetcher.hpp"

#include <string>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/zero/partition.hpp"

namespace stepcast::zero {
namespace {

constexpr std::size_t most_events = 2;  // fetches outstanding before the host blocks

const Name verb_all_gather("all_gather");
const Name verb_together("copy_together");
const Name rule_events("zero3.two-fetches-outstanding");
const Name verb_secondary("keep_secondary");
const Name rule_hpz("zero++.hpz-secondary-shard");
const Name rule_optimizer("zero3.gather-after-optimizer");

}  // namespace

Fetcher::Fetcher(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk,
                 Streams streams, BufferIndex shards)
    : builder_(builder), step_(step), walk_(walk), streams_(streams), shards_(shards) {
  const Bytes size = bytes_per_element(step.precision.gather);
  const int ranks = step.mesh.world_size();
  Bytes offset = 0;
  for (const stepcast::Parameter& parameter : step.model.parameters) {
    Parameter mine;
    mine.shard_bytes = parameter_partition(parameter.elements(), ranks) * size;
    mine.bytes = mine.shard_bytes * ranks;
    mine.shard_offset = offset;
    offset += mine.shard_bytes;
    mine.full = builder.buffer("gathered." + parameter.name.str(), BufferKind::unsharded,
                               step.precision.gather, mine.bytes, streams.all_gather);
    if (streams.secondary >= 0) {
      mine.secondary =
          builder.buffer("secondary." + parameter.name.str(), BufferKind::parameter,
                         step.precision.gather, mine.bytes / step.mesh.shard, streams.compute);
    }
    const int index = static_cast<int>(parameters_.size());
    if (streams.secondary >= 0) {
      chunk_layout(builder, step, mine.secondary, Cut::chunks, std::span<const int>(&index, 1),
                   Source::secondary_shards);
    }
    whole_layout(builder, mine.full,
                 one_after_another(step.model, std::span<const int>(&index, 1)));
    parameters_.push_back(mine);
  }
}

void chunk_layout(ScheduleBuilder& builder, const TrainingStep& step, BufferIndex buffer, Cut cut,
                  std::span<const int> parameters, Source source) {
  // Under hpZ the shard axis is the group of the secondary copies.
  const bool secondary = source == Source::secondary_shards;
  const Axis axis = step.mesh.replicate > 1 && !secondary ? Axis::world : Axis::shard;
  std::vector<Placed> placed;
  std::int64_t part = 0;
  for (const int p : parameters) {
    const std::int64_t elements = step.model.parameters[static_cast<std::size_t>(p)].elements();
    const std::int64_t chunk = parameter_partition(elements, step.mesh.world_size()) *
                               (secondary ? step.mesh.replicate : 1);
    placed.push_back({p, elements, part, chunk});
    part += chunk;
  }
  builder.layout(buffer, cut, axis, part, placed);
}

void Fetcher::begin_step() {
  calls_.clear();
  events_.clear();
  if (streams_.all_gather == streams_.compute) return;
  builder_.rule(rule_optimizer);
  builder_.stream_wait(streams_.all_gather, walk_.last_compute());
  builder_.rule(Name());
}

// One call; two where hpZ has a secondary shard of some and not of others.
void Fetcher::gather(std::span<const int> parameters) {
  std::vector<int> first;
  std::vector<int> again;
  for (const int p : parameters) {
    (parameters_[static_cast<std::size_t>(p)].has_secondary ? again : first).push_back(p);
  }
  gather_from(Source::shards, first);
  gather_from(Source::secondary_shards, again);
}

void Fetcher::gather_from(Source source, std::span<const int> parameters) {
  if (parameters.empty()) return;
  const bool secondary = source == Source::secondary_shards;
  const Dtype dtype = step_.precision.gather;
  Bytes bytes = 0;
  std::vector<View> shards;
  for (const int p : parameters) {
    const Parameter& mine = parameters_[static_cast<std::size_t>(p)];
    bytes += mine.bytes;
    shards.push_back(secondary ? builder_.whole(mine.secondary)
                               : View{shards_, mine.shard_offset, mine.shard_bytes});
  }
  if (!secondary && parameters.size() > 16) shards.assign(1, builder_.whole(shards_));
  const BufferIndex flat =
      builder_.buffer("flat_gather." + std::to_string(calls_.size()), BufferKind::gather_output,
                      dtype, bytes, streams_.all_gather);
  chunk_layout(builder_, step_, flat, Cut::by_rank, parameters, source);
  builder_.alloc(flat);
  if (secondary) builder_.rule(rule_hpz);
  const OpIndex op = builder_.collective(
      verb_all_gather, CollectiveKind::all_gather, secondary ? streams_.secondary : streams_.world,
      streams_.all_gather, dtype, bytes / bytes_per_element(dtype), Reduction::none, shards,
      ViewList(builder_.whole(flat)));
  if (secondary) builder_.rule(Name());
  if (streams_.all_gather == streams_.compute) walk_.ran_on_compute(op);
  for (const int p : parameters) {
    Parameter& mine = parameters_[static_cast<std::size_t>(p)];
    mine.flat = static_cast<BufferIndex>(calls_.size());
    mine.gather_op = op;
  }
  calls_.push_back({flat, static_cast<int>(parameters.size())});
}

void Fetcher::wait(std::span<const int> parameters) {
  OpIndex last = -1;
  for (const int p : parameters) {
    Parameter& mine = parameters_[static_cast<std::size_t>(p)];
    if (mine.gather_op < 0) continue;
    Call& call = calls_[static_cast<std::size_t>(mine.flat)];
    // The W pieces are copied together on the gather stream, behind later gathers.
    builder_.alloc(mine.full);
    const Kernel copy = memory_bound(verb_together, step_.precision.gather, mine.bytes, mine.bytes);
    last = builder_.one_kernel(verb_together, streams_.all_gather, copy,
                               ViewList(builder_.whole(call.flat)),
                               ViewList(builder_.whole(mine.full)));
    mine.gather_op = -1;
    if (--call.waiting == 0) builder_.free(call.flat);
  }
  if (last < 0) return;
  // With overlap_comm and without: the event limit is the host's.
  events_.push_back(last);
  if (events_.size() > most_events) {
    const OpRef oldest{events_.front(), 0};
    events_.pop_front();
    builder_.rule(rule_events);
    builder_.host_wait(std::span<const OpRef>(&oldest, 1));
    builder_.rule(Name());
  }
  if (streams_.all_gather == streams_.compute) {
    walk_.ran_on_compute(last);
  } else {
    builder_.stream_wait(streams_.compute, last);
  }
}

void Fetcher::release(std::span<const int> parameters) {
  for (const int p : parameters) {
    Parameter& mine = parameters_[static_cast<std::size_t>(p)];
    if (mine.gather_op >= 0) continue;  // gathered for a use that has not come yet
    if (streams_.secondary >= 0 && !mine.has_secondary) keep_secondary(p);
    builder_.free_after_streams(mine.full, std::span<const StreamIndex>(&streams_.compute, 1));
  }
}

void Fetcher::keep_secondary(int parameter) {
  Parameter& mine = parameters_[static_cast<std::size_t>(parameter)];
  builder_.rule(rule_hpz);
  builder_.alloc(mine.secondary);
  const View shard = builder_.whole(mine.secondary);
  walk_.run(streams_.compute,
            memory_bound(verb_secondary, step_.precision.gather, shard.bytes, shard.bytes),
            ViewList(View{mine.full, 0, shard.bytes}), ViewList(shard));
  builder_.host_wait_stream(streams_.compute);
  builder_.rule(Name());
  mine.has_secondary = true;
}

void Fetcher::drop_secondaries() {
  for (Parameter& mine : parameters_) {
    if (mine.has_secondary) builder_.free(mine.secondary);
    mine.has_secondary = false;
  }
}

View Fetcher::view_of(int parameter) const {
  return builder_.whole(parameters_[static_cast<std::size_t>(parameter)].full);
}

}  // namespace stepcast::zero
