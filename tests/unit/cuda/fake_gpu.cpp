#include "tests/unit/cuda/fake_gpu.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "runtime/cuda/kernels.hpp"
#include "tests/unit/cuda/fake_math.hpp"

namespace stepcast::runtime {

// A closure returns false while it cannot go on yet.
struct GpuStream {
  testing::FakeDevice* device = nullptr;
  std::deque<std::function<bool()>> queue;
};
struct GpuEvent {
  int recorded = 0;
  int passed = 0;
  double time = 0;
};
struct GpuComm {
  std::shared_ptr<testing::FakeGroup> group;
  int rank = 0;        // in it
  int world_rank = 0;  // of the first communicator
  int calls = 0;       // collectives started
  int through = 0;
  int splits = 0;
  bool aborted = false;
  bool lost = false;
  std::shared_ptr<testing::FakeGroup> becoming;  // of a split: found when all have come
  int color = 0, key = 0;
};
struct GpuKernel {
  Kernel shape;
};

}  // namespace stepcast::runtime

namespace stepcast::testing {

using namespace runtime;

struct FakeDevice {
  std::string bus_id;
  std::vector<GpuStream*> streams;
  std::map<std::byte*, std::pair<std::unique_ptr<std::byte[]>, Bytes>> memory;
  Bytes used = 0;
  double clock = 0;
};

// A communicator's members, and its collectives by number.
struct FakeGroup {
  int size = 0;
  int come = 0;
  bool broken = false;  // a member has aborted: nothing ends any more but by aborting
  struct Meeting {
    Collective what;
    std::vector<Operands> all;
    int entered = 0;
    bool agree = true;
    bool over = false;
  };
  std::map<int, Meeting> meetings;
  struct Split {
    std::vector<GpuComm*> members;
  };
  std::map<int, Split> splits;
};

namespace {

thread_local FakeDevice* current = nullptr;

}  // namespace

bool FakeCluster::go_on(FakeDevice& device) {
  std::vector<GpuStream*> order = device.streams;
  std::shuffle(order.begin(), order.end(), random_);
  for (GpuStream* stream : order) {
    largest_backlog_ = std::max(largest_backlog_, static_cast<int>(stream->queue.size()));
    if (stream->queue.empty() || !stream->queue.front()()) continue;
    device.clock += 1e-6;
    stream->queue.pop_front();
    return true;
  }
  return false;
}

class FakeGpu : public Gpu {
 public:
  FakeGpu(FakeCluster& cluster, std::vector<FakeDevice*> devices)
      : c_(cluster), devices_(std::move(devices)) {}

  int count() override { return static_cast<int>(devices_.size()); }
  GpuInfo info(int device) override {
    GpuInfo info;
    info.name = "Fake GPU";
    info.bus_id = c_.same_bus_ids ? "0" : devices_[static_cast<std::size_t>(device)]->bus_id;
    info.memory = c_.memory_of_gpu;
    return info;
  }
  void use(int device) override { current = devices_.at(static_cast<std::size_t>(device)); }
  int most_urgent() override { return -5; }
  GpuStream* new_stream(int priority) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    auto* stream = new GpuStream{current, {}};
    current->streams.push_back(stream);
    c_.priorities_.insert(priority);
    ++c_.alive_;
    return stream;
  }
  void end_stream(GpuStream* stream) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    auto& all = stream->device->streams;
    all.erase(std::find(all.begin(), all.end(), stream));
    --c_.alive_;
    delete stream;
  }
  GpuEvent* new_event() override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    ++c_.alive_;
    return new GpuEvent;
  }
  void end_event(GpuEvent* event) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    --c_.alive_;
    c_.keeps_.push_back(std::shared_ptr<GpuEvent>(event));  // closures still hold it
  }
  void record(GpuEvent* event, GpuStream* stream) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    const int version = ++event->recorded;
    stream->queue.emplace_back([event, stream, version] {
      event->passed = version;
      event->time = stream->device->clock;
      return true;
    });
  }
  void wait(GpuStream* stream, GpuEvent* event) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    const int version = event->recorded;
    if (event->passed >= version) return;
    stream->queue.emplace_back([event, version] { return event->passed >= version; });
  }
  bool done(GpuEvent* event) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    for (auto turns = c_.random_() % 8; turns > 0 && c_.go_on(*current); --turns) continue;
    return event->passed >= event->recorded;
  }
  Seconds between(GpuEvent* begin, GpuEvent* end) override { return end->time - begin->time; }
  std::byte* allocate(Bytes size) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    if (current->used + size > c_.memory_of_gpu) throw OutOfGpuMemory("cudaMalloc: out of memory");
    // Not written to: what nobody touches of a large model is never there.
    std::unique_ptr<std::byte[]> bytes(new std::byte[static_cast<std::size_t>(size)]);
    std::byte* at = bytes.get();
    current->memory.emplace(at, std::pair{std::move(bytes), size});
    current->used += size;
    ++c_.alive_;
    return at;
  }
  void release(std::byte* memory) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    for (auto& node : c_.nodes_) {
      for (auto& device : node) {
        const auto found = device->memory.find(memory);
        if (found == device->memory.end()) continue;
        while (c_.go_on(*device)) continue;  // cudaFree waits for the device
        device->used -= found->second.second;
        device->memory.erase(found);
        --c_.alive_;
        return;
      }
    }
    throw GpuError("cudaFree: invalid argument");
  }
  std::byte* allocate_pinned(Bytes size) override { return allocate(size); }
  void release_pinned(std::byte* memory) override { release(memory); }
  void fill(GpuStream* stream, std::byte* to, int byte, Bytes size) override {
    const auto bytes = static_cast<std::size_t>(size > c_.largest_moved ? 0 : size);
    push(stream, [to, byte, bytes] { std::memset(to, byte, bytes); });
  }
  void copy(GpuStream* stream, std::byte* to, const std::byte* from, Bytes size) override {
    const auto bytes = static_cast<std::size_t>(size > c_.largest_moved ? 0 : size);
    push(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
  }
  void synchronize(GpuStream* stream) override {
    for (;;) {
      {
        const std::lock_guard<std::mutex> lock(c_.mutex_);
        if (stream->queue.empty()) return;
        if (c_.go_on(*current)) continue;
      }
      std::this_thread::yield();
    }
  }
  void push_range(const char* name) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    c_.ranges_.emplace_back(name);
  }
  void pop_range() override {}

  void push(GpuStream* stream, std::function<void()> what) {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    stream->queue.emplace_back([what = std::move(what)] {
      what();
      return true;
    });
  }

 private:
  FakeCluster& c_;
  std::vector<FakeDevice*> devices_;
};

class FakeNccl : public GpuCollectives {
 public:
  explicit FakeNccl(FakeCluster& cluster) : c_(cluster) {}

  int version() override { return c_.nccl_version; }
  std::string unique_id() override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    return "id" + std::to_string(++c_.ids_);
  }
  GpuComm* join(int ranks, const std::string& id, int rank, const CommOptions& options) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    if (c_.only_process && ranks > static_cast<int>(c_.nodes_.front().size())) {
      throw GpuError("ncclCommInitRankConfig: the other ranks are in no process of this fake");
    }
    auto& group = c_.groups_[id];
    if (!group) group = std::make_shared<FakeGroup>();
    group->size = ranks;
    ++group->come;
    c_.comm_names_.insert(options.name);
    c_.max_ctas_.insert(options.max_ctas);
    ++c_.alive_;
    auto* comm = new GpuComm;
    comm->group = group;
    comm->rank = comm->world_rank = rank;
    return comm;
  }
  GpuComm* split(GpuComm* parent, int color, int key, const CommOptions& options) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    auto* comm = new GpuComm;
    ++c_.alive_;
    c_.comm_names_.insert(options.name);
    comm->world_rank = parent->world_rank;
    comm->color = color;
    comm->key = key;
    FakeGroup::Split& split = parent->group->splits[parent->splits++];
    split.members.push_back(comm);
    if (static_cast<int>(split.members.size()) < parent->group->size) return comm;
    std::map<int, std::vector<GpuComm*>> by_color;
    for (GpuComm* member : split.members) by_color[member->color].push_back(member);
    for (auto& [its, members] : by_color) {
      std::sort(members.begin(), members.end(), [](const GpuComm* a, const GpuComm* b) {
        return std::pair{a->key, a->world_rank} < std::pair{b->key, b->world_rank};
      });
      auto group = std::make_shared<FakeGroup>();
      group->size = group->come = static_cast<int>(members.size());
      for (std::size_t i = 0; i < members.size(); ++i) {
        members[i]->group = group;
        members[i]->rank = static_cast<int>(i);
      }
    }
    return comm;
  }
  CommState state(GpuComm* comm) override {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    if (comm->lost) return CommState::failed;
    if (!comm->group || comm->group->come < comm->group->size) return CommState::in_progress;
    if (c_.faults.kind == FakeFaults::Kind::never_joins && comm->world_rank == c_.faults.rank) {
      return CommState::in_progress;
    }
    return CommState::ready;
  }
  std::string error(GpuComm*) override { return "ncclRemoteError: a peer is lost"; }

  void start(GpuComm* comm, GpuStream* stream, const Collective& what,
             const Operands& operands) override {
    bool enters = true;
    {
      std::unique_lock<std::mutex> lock(c_.mutex_);
      const int call = ++calls_[comm->world_rank];
      if (c_.faults.rank == comm->world_rank && c_.faults.call == call) {
        switch (c_.faults.kind) {
          case FakeFaults::Kind::throws: throw GpuError("ncclAllReduce: unhandled cuda error");
          case FakeFaults::Kind::async_error: comm->lost = true; break;
          case FakeFaults::Kind::never_enters: enters = false; break;
          case FakeFaults::Kind::stuck: c_.resumed_.wait(lock, [&] { return c_.resume_; }); break;
          default: break;
        }
      }
    }
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    const int number = comm->calls++;
    auto entered = std::make_shared<bool>(false);
    const bool moves = what.elements * bytes_per_element(what.dtype) <= c_.largest_moved;
    stream->queue.emplace_back([comm, what, operands, number, entered, enters, moves] {
      if (comm->aborted) return true;
      if (!enters || comm->through != number || comm->group->broken) return false;
      FakeGroup::Meeting& meeting = comm->group->meetings[number];
      if (!*entered) {
        if (meeting.entered == 0) {
          meeting.what = what;
          meeting.all.resize(static_cast<std::size_t>(comm->group->size));
        }
        meeting.agree = meeting.agree && meeting.what == what;
        meeting.all[static_cast<std::size_t>(comm->rank)] = operands;
        *entered = true;
        if (++meeting.entered == comm->group->size && meeting.agree) {
          for (int i = 0; moves && i < comm->group->size; ++i) first_half(what, meeting.all, i);
          for (int i = 0; moves && i < comm->group->size; ++i) second_half(what, meeting.all, i);
          meeting.over = true;
        }
      }
      if (!meeting.over) return false;
      ++comm->through;
      return true;
    });
  }
  void end(GpuComm* comm) noexcept override { end_it(comm, false); }
  void abort(GpuComm* comm) noexcept override { end_it(comm, true); }

 private:
  // Kept: closures that still hold it must find that it was aborted.
  void end_it(GpuComm* comm, bool aborts) {
    const std::lock_guard<std::mutex> lock(c_.mutex_);
    comm->aborted = true;
    if (aborts && comm->group) comm->group->broken = true;
    c_.aborted_ += aborts ? 1 : 0;
    --c_.alive_;
    c_.keeps_.push_back(std::shared_ptr<GpuComm>(comm));
  }
  FakeCluster& c_;
  std::map<int, int> calls_;  // by rank of the world
};

class FakeKernels : public GpuKernels {
 public:
  explicit FakeKernels(FakeGpu& gpu) : gpu_(gpu) {}
  void room(Room) override {}
  GpuKernel* prepare(const Kernel& kernel) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    kernels_.push_back(std::make_unique<GpuKernel>(GpuKernel{kernel}));
    return kernels_.back().get();
  }
  std::string label(const GpuKernel*) override { return "fake"; }
  void launch(GpuKernel*, GpuStream* stream) override {
    gpu_.push(stream, [] {});
  }

 private:
  FakeGpu& gpu_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<GpuKernel>> kernels_;
};

FakeCluster::FakeCluster(std::vector<int> gpus_of_node, std::uint64_t seed) : random_(seed) {
  for (std::size_t n = 0; n < gpus_of_node.size(); ++n) {
    nodes_.emplace_back();
    for (int g = 0; g < gpus_of_node[n]; ++g) {
      nodes_.back().push_back(std::make_unique<FakeDevice>());
      nodes_.back().back()->bus_id = std::to_string(n) + ":" + std::to_string(g);
    }
  }
  keeps_.push_back(std::make_shared<FakeNccl>(*this));
}

FakeCluster::~FakeCluster() = default;

GpuTables FakeCluster::process(int node, int one_gpu) {
  std::vector<FakeDevice*> devices;
  for (const auto& device : nodes_.at(static_cast<std::size_t>(node))) {
    devices.push_back(device.get());
  }
  if (one_gpu >= 0) devices = {devices.at(static_cast<std::size_t>(one_gpu))};
  auto gpu = std::make_shared<FakeGpu>(*this, devices);
  auto math = std::make_shared<FakeMath>(
      [gpu = gpu.get()](GpuStream* stream, auto what) { gpu->push(stream, std::move(what)); });
  auto kernels = std::make_shared<FakeKernels>(*gpu);
  GpuTables tables;
  tables.gpu = gpu.get();
  tables.collectives = static_cast<FakeNccl*>(keeps_.front().get());
  tables.math = math.get();
  tables.kernels = kernels.get();
  const std::lock_guard<std::mutex> lock(mutex_);
  keeps_.push_back(gpu);
  keeps_.push_back(math);
  keeps_.push_back(kernels);
  return tables;
}

void FakeCluster::resume() {
  const std::lock_guard<std::mutex> lock(mutex_);
  resume_ = true;
  resumed_.notify_all();
}

int FakeCluster::alive() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return alive_;
}

std::multiset<int> FakeCluster::priorities() const { return priorities_; }

}  // namespace stepcast::testing
