// When freed device memory is used again, poisoned, given back.

#include "runtime/cuda/device_memory.hpp"

#include <doctest/doctest.h>

#include "sim/schedule/builder.hpp"
#include "tests/unit/cuda/fake_gpu.hpp"

namespace stepcast::runtime {
namespace {

struct Stand {
  testing::FakeCluster cluster{{1}};
  GpuTables tables = cluster.process(0);
  Schedule schedule;
  BufferIndex a = -1, b = -1, large = -1;
  std::vector<GpuStream*> streams;

  Stand() {
    ScheduleBuilder s("memory", Mesh{1, 1});
    const StreamIndex compute = s.stream("compute");
    s.stream("side");
    s.lane("main");
    s.role("all", 0, 1);
    s.step("steady");
    a = s.buffer("a", BufferKind::workspace, Dtype::fp32, 4096, compute);
    b = s.buffer("b", BufferKind::workspace, Dtype::fp32, 4000, compute);
    large = s.buffer("large", BufferKind::workspace, Dtype::fp32, 100000, compute);
    for (const BufferIndex each : {a, b, large}) {
      s.compute("use", compute, {}, std::vector<View>{}, std::vector<View>{s.whole(each)});
    }
    schedule = s.take();
    tables.gpu->use(0);
    streams = {tables.gpu->new_stream(0), tables.gpu->new_stream(0)};
  }
  ~Stand() {
    for (GpuStream* stream : streams) tables.gpu->end_stream(stream);
  }
};

TEST_CASE("freed in host order, a block is used again at once by its own pool") {
  Stand s;
  {
    DeviceMemory memory(s.schedule, 0, *s.tables.gpu, s.streams, false);
    memory.alloc(s.a);
    std::byte* first = memory.at(s.a);
    memory.reuse(memory.free(s.a), {});
    memory.alloc(s.b);  // 4000 fits 4096: less than a quarter is lost
    CHECK(memory.at(s.b) == first);
    CHECK(memory.allocated() == 4000);
    CHECK(memory.peak() == 4096);
    CHECK(memory.reserved_peak() == 4096);
    memory.alloc(s.large);  // 100,000, in units of 512
    CHECK(memory.reserved_peak() == 4096 + 100352);
    CHECK(memory.pool_peaks() == std::vector<Bytes>{4096 + 100352, 0});
  }
  CHECK(s.cluster.alive() == 2);  // the two streams of the test
}

TEST_CASE("a block that another stream reads is used again when that stream has passed") {
  Stand s;
  DeviceMemory memory(s.schedule, 0, *s.tables.gpu, s.streams, false);
  GpuEvent* gate = s.tables.gpu->new_event();
  memory.alloc(s.a);
  std::byte* first = memory.at(s.a);
  // The side stream is held: it waits for an event of a stream that has not come so far.
  s.tables.gpu->fill(s.streams[1], first, 1, 4096);
  memory.reuse(memory.free(s.a), {1});
  memory.alloc(s.b);
  const bool at_once = memory.at(s.b) == first;  // only if the fake happened to be through
  memory.reuse(memory.free(s.b), {});
  s.tables.gpu->synchronize(s.streams[1]);
  memory.alloc(s.a);
  std::byte* again = memory.at(s.a);
  memory.alloc(s.b);
  if (!at_once) CHECK((again == first || memory.at(s.b) == first));
  CHECK(memory.reserved_peak() <= 2 * 4096);
  s.tables.gpu->end_event(gate);
}

TEST_CASE("poison: fresh memory has it, freed memory gets it before its pool's next op") {
  Stand s;
  DeviceMemory memory(s.schedule, 0, *s.tables.gpu, s.streams, true);
  memory.alloc(s.a);
  std::byte* bytes = memory.at(s.a);
  CHECK(bytes[17] == std::byte{0xff});
  s.tables.gpu->fill(s.streams[0], bytes, 7, 4096);
  s.tables.gpu->synchronize(s.streams[0]);
  memory.reuse(memory.free(s.a), {});
  s.tables.gpu->synchronize(s.streams[0]);
  CHECK(bytes[17] == std::byte{7});  // whoever was issued before may still read it
  memory.alloc(s.a);
  CHECK(memory.at(s.a) != bytes);  // nor is it handed out before
  memory.before_op(0);
  s.tables.gpu->synchronize(s.streams[0]);
  CHECK(bytes[17] == std::byte{0xff});
  memory.alloc(s.b);
  CHECK(memory.at(s.b) == bytes);
}

TEST_CASE("where the GPU is full, unused blocks are given back before anybody is told") {
  Stand s;
  s.cluster.memory_of_gpu = 101000;
  DeviceMemory memory(s.schedule, 0, *s.tables.gpu, s.streams, false);
  memory.alloc(s.a);
  memory.reuse(memory.free(s.a), {});
  memory.alloc(s.large);  // 4096 + 100352 are too many, 100352 are not
  CHECK(memory.at(s.large) != nullptr);
  CHECK_THROWS_AS(memory.alloc(s.a), OutOfGpuMemory);
}

}  // namespace
}  // namespace stepcast::runtime
