// What each strategy sends, in all-gathers (G), reduce-scatters (R) and all-reduces (A = R + G) of
// all parameters, for M micro-batches:
//
//                     sync every       sync last
//   DDP               M A              A
//   FULL_SHARD        M (2 G + R)      M 2 G + R
//   SHARD_GRAD_OP     M (G + R)        G + R        gathered once, then kept with the gradients
//   FSDP2 no reshard  M (G + R)        M G + R      G + R if also kept after backward
//   ZeRO-1            -                A + G        default mode reduces whole buckets
//   ZeRO-2            M A + G          -            in reduce mode M R + G
//   ZeRO-3            M (2 G + R)      -
//
// Sources: PyTorch source (DDP, FSDP1, FSDP2), DeepSpeed 0.19 source.

#include "sim/collectives/volume.hpp"

#include <string>

#include "base/error.hpp"

namespace stepcast {
namespace {

double share(int ranks) { return (ranks - 1.0) / ranks; }

void refuse(VolumeStrategy strategy, const std::string& accepted) {
  throw InputError({"", 0, "sync"}, std::string(to_string(strategy)) +
                                        " does not accumulate this way; accepted: " + accepted);
}

}  // namespace

double ring_all_reduce_bytes(double size, int ranks) { return 2 * share(ranks) * size; }

double ring_all_gather_bytes(double size, int ranks) { return share(ranks) * size; }

double ring_reduce_scatter_bytes(double size, int ranks) { return share(ranks) * size; }

double primary_bytes(double size, int ranks) { return 2.0 * (ranks - 1) * size; }

Volume strategy_volume(const VolumeOptions& o, VolumeStrategy strategy) {
  STEPCAST_ASSERT(o.ranks >= 1 && o.micro_batches >= 1 && o.parameters >= 0, "volume options");
  const double gather = ring_all_gather_bytes(o.parameters * o.gather_bytes, o.ranks);
  const double scatter = ring_reduce_scatter_bytes(o.parameters * o.reduce_bytes, o.ranks);
  const double m = o.micro_batches;
  const double reductions = o.sync == VolumeSync::every ? m : 1;
  const bool several = o.micro_batches > 1;
  Volume v;
  switch (strategy) {
    case VolumeStrategy::ddp:
      if (o.sync == VolumeSync::last_free) refuse(strategy, "every, last");
      v.all_reduce = reductions * 2 * scatter;
      return v;
    case VolumeStrategy::full_shard:
      if (o.sync == VolumeSync::last_free) refuse(strategy, "every, last");
      v.all_gather = m * 2 * gather;
      v.reduce_scatter = reductions * scatter;
      return v;
    case VolumeStrategy::shard_grad_op:
      if (o.sync == VolumeSync::last_free) refuse(strategy, "every, last");
      v.all_gather = reductions * gather;
      v.reduce_scatter = reductions * scatter;
      return v;
    case VolumeStrategy::no_reshard:
      v.all_gather = (o.sync == VolumeSync::last_free ? 1 : m) * gather;
      v.reduce_scatter = reductions * scatter;
      return v;
    case VolumeStrategy::zero1:
      if (several && o.sync != VolumeSync::last) refuse(strategy, "last");
      v.all_reduce = 2 * scatter;
      v.all_gather = gather;
      return v;
    case VolumeStrategy::zero2:
      if (o.sync != VolumeSync::every) refuse(strategy, "every");
      v.all_reduce = m * 2 * scatter;
      v.all_gather = gather;
      return v;
    case VolumeStrategy::zero2_reduce:
      if (o.sync != VolumeSync::every) refuse(strategy, "every");
      v.reduce = m * scatter;
      v.all_gather = gather;
      return v;
    case VolumeStrategy::zero3:
      if (o.sync != VolumeSync::every) refuse(strategy, "every");
      v.all_gather = m * 2 * gather;
      v.reduce_scatter = m * scatter;
      return v;
  }
  return v;
}

HybridVolume hybrid_volume(const VolumeOptions& options, int shard_ranks, int replicas) {
  VolumeOptions inside = options;
  inside.ranks = shard_ranks;
  HybridVolume v;
  v.intra = strategy_volume(inside, VolumeStrategy::full_shard).total();
  const double reductions = options.sync == VolumeSync::every ? options.micro_batches : 1;
  v.inter = reductions * ring_all_reduce_bytes(
                             options.parameters * options.reduce_bytes / shard_ranks, replicas);
  return v;
}

std::string_view to_string(VolumeStrategy strategy) {
  switch (strategy) {
    case VolumeStrategy::ddp: return "DDP";
    case VolumeStrategy::full_shard: return "FULL_SHARD";
    case VolumeStrategy::shard_grad_op: return "SHARD_GRAD_OP";
    case VolumeStrategy::no_reshard: return "FSDP2 without resharding";
    case VolumeStrategy::zero1: return "ZeRO-1";
    case VolumeStrategy::zero2: return "ZeRO-2";
    case VolumeStrategy::zero2_reduce: return "ZeRO-2 in reduce mode";
    case VolumeStrategy::zero3: return "ZeRO-3";
  }
  return "";
}

}  // namespace stepcast
