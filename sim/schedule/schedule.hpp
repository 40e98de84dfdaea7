#pragma once
// The program of a training step: what every rank's host issues, in order. It holds no seconds and
// knows neither SimGrid nor CUDA: kernels, profile and topology give times, so one text runs on any
// machine, simulated or real.
//
// Three queues order everything:
//   a host lane     issues its ops in program order;
//   a stream        executes the ops issued to it in issue order;
//   a communicator  executes its collectives one at a time in issue order, whatever their stream
//                   (NCCL; docs/sources.md R2).
// Besides, an op waits where the program says so: `stream_wait` makes a stream wait for an op that
// was issued earlier, `host_wait` blocks the lane. Both only look back within a role, so a cycle
// cannot be written; across roles a deadlock can, and engines and executors then stop and name it.
//
// Example, two units of an FSDP forward (text form, see text.hpp):
//
//   forward.all_gather.layers.0   collective all_gather comm=shard stream=all_gather ...
//   forward.wait.layers.0         stream_wait stream=compute on=forward.all_gather.layers.0
//   forward.compute.layers.0      compute stream=compute kernels=k1 ...
//
// Memory: ops are ~100 bytes and refer by index into arenas of the schedule; 2,000 ops build in
// well under a millisecond. Tested by tests/unit/schedule.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/kernel.hpp"
#include "base/name.hpp"
#include "base/units.hpp"
#include "sim/schedule/layout.hpp"

namespace stepcast {

// ---- Indices ------------------------------------------------------------------------------------
// Into the schedule's vectors. -1 is none.
using StreamIndex = std::int16_t;
using LaneIndex = std::int16_t;
using CommIndex = std::int16_t;
using BufferIndex = std::int32_t;
using OpIndex = std::int32_t;
using UnitIndex = std::int32_t;

// A contiguous part of one of the schedule's arenas.
struct Range {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

// ---- Declarations -------------------------------------------------------------------------------
struct Lane {
  Name name;  // "main", "autograd", "loader0"
  Name lock;  // lanes of one process with the same non-empty lock run one at a time (the GIL)
  // How many such threads take turns on the lock, those of other ranks of the process included
  // (nn.DataParallel: a thread a GPU, one interpreter). Issuing and host work then take this many
  // times as long as for one thread alone.
  int sharers = 1;
};

struct Stream {
  Name name;         // "compute", "all_gather", ... as PyTorch's profiler would name the row
  int priority = 0;  // CUDA stream priority, lower is more urgent
};

// Which ranks form one communicator; every rank belongs to exactly one of each.
enum class Axis : std::uint8_t {
  world,      // all ranks
  shard,      // consecutive ranks: {0..g-1}, {g..2g-1}, ...
  replicate,  // the same shard index: {0, g, 2g, ...}, {1, g+1, ...}, ...
};

struct Communicator {
  Name name;
  Axis axis = Axis::world;
};

// replicate x shard = world size. DDP {n,1}, FSDP {1,n}, HSDP {r,s}.
struct Mesh {
  int replicate = 1;
  int shard = 1;
  int world_size() const { return replicate * shard; }
  int size(Axis axis) const;
};

// What a buffer is for: the rows of the memory ledger.
enum class BufferKind : std::uint8_t {
  parameter,        // the persistent parameters (or this rank's shard of them)
  gradient,         // persistent or per-parameter gradients, full or shard
  optimizer_state,  // Adam moments, fp32 master copies
  bucket,           // DDP reducer buckets
  unsharded,        // gathered parameters in use
  gather_output,    // flat output of an all-gather, before copy-out
  reduce_input,     // flat input of a reduce-scatter
  reduce_output,    // and its output before it is cast and handed out
  activation,       // kept from forward to backward
  workspace,        // short-lived within a layer
  logits,
  input,  // token ids, labels
  other,
};

struct Buffer {
  Name name;
  BufferKind kind = BufferKind::other;
  Dtype dtype = Dtype::fp32;
  Bytes bytes = 0;
  StreamIndex pool = 0;      // the caching allocator's pool: the stream it was allocated on
  bool persistent = false;   // exists before the first step and after the last; no alloc op
  BufferIndex view_of = -1;  // a view of another buffer ...
  Bytes view_offset = 0;     // ... at this offset; views own no memory
};

// What lies in a buffer (layout.hpp).
struct BufferLayout {
  BufferIndex buffer = -1;
  Cut cut = Cut::whole;
  Axis axis = Axis::world;  // flat, chunks, by_rank: the ranks it is cut among
  std::int64_t part = 0;    // flat, chunks, by_rank: elements a rank holds, padding included
  Range placed;             // into Schedule::placed
};

struct View {
  BufferIndex buffer = -1;
  Bytes offset = 0;
  Bytes bytes = 0;
};

// ---- Ops ----------------------------------------------------------------------------------------
enum class OpKind : std::uint8_t {
  compute,      // kernels, on a stream
  collective,   // on a stream and a communicator
  copy,         // memory copy by a copy engine, on a stream
  stream_wait,  // `stream` waits until the awaited ops are done; the host does not block
  host_work,    // the lane is busy: a named cost, `count` times
  host_wait,    // the lane blocks until the awaited ops / `wait_stream` / the device are done
  alloc,        // at host order
  free,         // see FreeRule
  storage,      // read or write of files (loader, checkpoint), on a lane
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  scatter,  // the root's tensor in equal parts, one to each rank: peer copies out of the root
  gather    // and back into it
};
// avg: NCCL's ncclAvg (pre-multiply and sum; never NVLS, docs/sources.md)
enum class Reduction : std::uint8_t { none, sum, avg, max };
enum class CopyKind : std::uint8_t { host_to_device, device_to_host, device_to_device, peer };

enum class FreeRule : std::uint8_t {
  host_order,     // reusable at once on its own pool (default of the caching allocator)
  after_streams,  // record_stream: only when the named streams have passed this point
  after_op,       // only when an op is done
};

enum class WaitTarget : std::uint8_t { ops, stream, device };

enum class Phase : std::uint8_t { setup, load, forward, loss, backward, optimizer };

// An awaited op: index into the ops of the same role's step, `steps_back` steps ago. For
// steps_back > 0 where that earlier step ran another StepProgram (the first steady step waits on
// the second step), the op with the same key (phase, verb, unit, micro_batch) is meant; where there
// is none, nothing is waited for.
struct OpRef {
  OpIndex op = -1;
  std::int8_t steps_back = 0;
};

struct Op {
  OpKind kind = OpKind::compute;
  Phase phase = Phase::forward;
  std::int16_t micro_batch = 0;
  UnitIndex unit = -1;  // into Schedule::units
  Name verb;            // "all_gather", "copy_out", "compute", ...
  Name rule;            // the rule it stands for: "fsdp2.two-gathers-alive"; may be empty

  LaneIndex lane = 0;       // the lane that issues it
  StreamIndex stream = -1;  // where it runs; -1 for host ops, alloc, free
  int launches = 1;         // CUDA launches the lane pays for (0: none)

  Range waits;   // into Schedule::refs: stream_wait, host_wait, free(after_op)
  Range reads;   // into Schedule::views
  Range writes;  // into Schedule::views

  // compute
  Range kernels;  // into Schedule::kernels; equal work shares one range

  // collective. `elements` is nccl-tests' size in elements: the whole tensor for all-reduce and
  // broadcast, the gathered tensor for all-gather and gather, the unreduced input for
  // reduce-scatter, the root's tensor for scatter.
  CollectiveKind collective = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::none;
  Dtype dtype = Dtype::fp32;
  CommIndex comm = -1;
  std::int32_t root = -1;
  std::int64_t elements = 0;

  // copy
  CopyKind copy = CopyKind::device_to_device;
  Bytes bytes = 0;  // copy and storage

  // host_work: `cost` names an entry of the software profile ("fsdp_pre_forward"), paid `count`
  // times
  Name cost;
  std::int32_t count = 0;

  // host_wait
  WaitTarget wait_target = WaitTarget::ops;
  StreamIndex wait_stream = -1;

  // alloc, free
  BufferIndex buffer = -1;
  FreeRule free_rule = FreeRule::host_order;
  Range free_streams;  // into Schedule::stream_lists
};

// ---- Programs -----------------------------------------------------------------------------------
// One step of one role. The last StepProgram of a role repeats: it is the steady step.
struct StepProgram {
  Name name;            // "construction", "first", "second", "steady"
  std::vector<Op> ops;  // host issue order, all lanes interleaved as issued
};

// A set of ranks that run one program. Ranks are first, first+stride, ... unless they are listed.
struct Role {
  Name name;  // "all", "gpu0", "rest"
  int first_rank = 0;
  int rank_count = 0;
  int rank_stride = 1;
  std::vector<StepProgram> steps;  // the same number and names for every role
  // Sets that follow no stride ("all but 17"): rank_count ranks, ascending. Else empty.
  std::vector<std::int32_t> listed = {};

  std::int64_t rank(std::int64_t i) const {  // of 0 .. rank_count-1
    return listed.empty() ? first_rank + i * rank_stride : listed[static_cast<std::size_t>(i)];
  }
};

struct Schedule {
  std::string name;  // "fsdp2 llama-3-8b"
  Mesh mesh;
  std::vector<Lane> lanes;
  std::vector<Stream> streams;
  std::vector<Communicator> communicators;
  std::vector<Name> units;
  std::vector<Buffer> buffers;
  std::vector<Role> roles;

  // arenas
  std::vector<Kernel> kernels;
  std::vector<View> views;
  std::vector<OpRef> refs;
  std::vector<StreamIndex> stream_lists;

  // What lies where, of the buffers that need to be told; no part of the text form.
  std::vector<BufferLayout> layouts;
  std::vector<Placed> placed;

  // facts that a report must print, in words ("rows are padded to the world size: ...")
  std::vector<std::string> notes;

  std::span<const Kernel> at_kernels(Range r) const { return part(kernels, r); }
  std::span<const View> at_views(Range r) const { return part(views, r); }
  std::span<const OpRef> at_refs(Range r) const { return part(refs, r); }
  std::span<const StreamIndex> at_streams(Range r) const { return part(stream_lists, r); }
  std::span<const Placed> at_placed(Range r) const { return part(placed, r); }

 private:
  template <typename T>
  static std::span<const T> part(const std::vector<T>& arena, Range r) {
    STEPCAST_ASSERT(
        r.first >= 0 && r.count >= 0 &&
            static_cast<std::size_t>(r.first) + static_cast<std::size_t>(r.count) <= arena.size(),
        "a range beyond its arena");
    return {arena.data() + r.first, static_cast<std::size_t>(r.count)};
  }
};

// Unique name of an op within its step: PHASE.VERB[.UNIT][.mN][#K]; .mN only where the step has
// several micro-batches, #K only from the second op of one name on. One pass over the step.
std::vector<std::string> op_names(const Schedule& schedule, const StepProgram& step);

// Where an op stands in another StepProgram of the same role: the op with the same phase, verb,
// unit and micro-batch, the k-th of that key for the k-th; -1 where there is none. This is how an
// OpRef with steps_back > 0 reads when the earlier step ran another program.
class SameOp {
 public:
  SameOp(const StepProgram& from, const StepProgram& to);
  OpIndex operator()(OpIndex op) const { return to_[static_cast<std::size_t>(op)]; }

 private:
  std::vector<OpIndex> to_;
};

// Equal by meaning: the arenas may be laid out differently, and fields that an op's kind does not
// use do not count (the dtype of a copy, say).
bool equal(const Schedule& a, const Schedule& b);

// A rank's index in its group of the axis, and the ranks of that group in order.
int index_in_group(const Mesh& mesh, Axis axis, int rank);
std::vector<int> ranks_of_group(const Mesh& mesh, Axis axis, int rank);

// The runs of a layout on one rank (of a group, its index), in the order of the buffer. Padding is
// in none.
std::vector<Run> runs_of(const Schedule& schedule, const BufferLayout& layout, int index);

Bytes bytes_of(const Op& collective);  // elements * dtype
// Bytes each rank sends for this op by ring counting, n ranks of the communicator: all-reduce
// 2(n-1)/n S, all others (n-1)/n S. Of a broadcast or reduce, a chain, one rank sends nothing and
// the others S: the average. Of a scatter or gather the average too: (n-1)/n S in all.
double ring_bytes_sent(const Op& collective, int ranks);

std::string_view to_string(OpKind);
std::string_view to_string(CollectiveKind);
std::string_view to_string(Reduction);
std::string_view to_string(CopyKind);
std::string_view to_string(FreeRule);
std::string_view to_string(WaitTarget);
std::string_view to_string(Phase);
std::string_view to_string(Axis);
std::string_view to_string(BufferKind);

}  // namespace stepcast
