#include "sim/report/trace.hpp"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/report/trace_names.hpp"
#include "tests/unit/report/small_step.hpp"

using namespace stepcast;
using Json = nlohmann::json;

namespace {

// Events by category and name; of several the last.
using Events = std::map<std::pair<std::string, std::string>, Json>;

Events events_of(const Json& trace) {
  Events events;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") events[{event.at("cat"), event.at("name")}] = event;
  }
  return events;
}

Json small_trace(const TraceOptions& options = {}) {
  const Schedule schedule = small_step();
  const CostTable costs = small_step_costs(schedule);
  return Json::parse(to_trace(schedule, costs, run_once(schedule, costs), options));
}

}  // namespace

TEST_CASE("a trace has one named track a stream and a slice for each op at its time") {
  const Json trace = small_trace();
  std::map<int, std::string> tracks;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "thread_name" && event.at("pid") == 0) {
      tracks[event.at("tid")] = event.at("args").at("name");
    }
  }
  CHECK(tracks.at(7) == "stream 7 (compute)");
  CHECK(tracks.at(16) == "stream 16 (all_gather)");
  CHECK(tracks.at(20) == "stream 20 (reduce_scatter)");

  const Events events = events_of(trace);
  const Json& gather = events.at({"gpu_user_annotation", "forward.all_gather.u1"});
  CHECK(gather.at("tid") == 16);
  CHECK(gather.at("ts") == doctest::Approx(2e6));
  CHECK(gather.at("dur") == doctest::Approx(4e6));
  const Json& forward = events.at({"gpu_user_annotation", "forward.compute.u1"});
  CHECK(forward.at("ts") == doctest::Approx(6e6));
  CHECK(forward.at("args").at("bound") == "wait");
  CHECK(forward.at("args").at("waited_for") == "forward.all_gather.u1");
  CHECK(forward.at("args").at("provenance") == "assumed");
}

TEST_CASE("a collective is an NCCL kernel that says what it moved, launched by an arrow") {
  const Json trace = small_trace();
  const std::string name = "ncclDevKernel_AllGather(ncclDevKernelArgsStorage<4096ul>)";
  const Json kernel = events_of(trace).at({"kernel", name});  // the second: u1
  const Json& args = kernel.at("args");
  CHECK(kernel.at("tid") == 16);
  CHECK(kernel.at("ts") == doctest::Approx(2e6));
  CHECK(args.at("stream") == 16);
  CHECK(args.at("device") == 0);
  CHECK(args.at("Collective name") == "_allgather_base");
  CHECK(args.at("In msg nelems") == 2000 / 8);
  CHECK(args.at("Out msg nelems") == 2000);
  CHECK(args.at("Group size") == 8);
  CHECK(args.at("dtype") == "BFloat16");
  CHECK(args.at("Process Group Ranks") == "[0, 1, 2, 3, 4, 5, 6, 7]");
  // Its launch: a runtime call with the same correlation, an arrow from the one to the other, and
  // record_param_comms with the same external id.
  const Json& correlation = args.at("correlation");
  int launches = 0, arrows = 0, params = 0;
  for (const Json& event : trace.at("traceEvents")) {
    const Json none = Json::object();
    const Json& of = event.contains("args") ? event.at("args") : none;
    launches +=
        event.value("cat", "") == "cuda_runtime" && of.value("correlation", Json()) == correlation;
    arrows += event.value("cat", "") == "ac2g" && event.at("id") == correlation;
    params += event.at("name") == "record_param_comms" &&
              of.at("External id") == args.at("External id") &&
              of.at("Collective name") == "_allgather_base";
  }
  CHECK(launches == 1);
  CHECK(arrows == 2);
  CHECK(params == 1);
}

TEST_CASE("the trace says where it ran and which ranks form which group") {
  TraceOptions options;
  options.gpu = "NVIDIA H100 SXM5 80GB";
  options.gpu_memory = 85'000'000'000;
  options.compute_capability = 90;
  options.sm_count = 132;
  options.gpus_per_node = 4;
  options.nccl_version = "2.28.9";
  options.rank = 6;
  const Json trace = small_trace(options);
  REQUIRE(trace.at("deviceProperties").size() == 4);
  CHECK(trace.at("deviceProperties")[3].at("id") == 3);
  CHECK(trace.at("deviceProperties")[3].at("computeMajor") == 9);
  CHECK(trace.at("deviceProperties")[3].at("numSms") == 132);
  const Json& info = trace.at("distributedInfo");
  CHECK(info.at("backend") == "nccl");
  CHECK(info.at("rank") == 6);
  CHECK(info.at("world_size") == 8);
  CHECK(info.at("nccl_version") == "2.28.9");
  CHECK(info.at("pg_config")[0].at("pg_desc") == "shard");
  CHECK(info.at("pg_config")[0].at("ranks").size() == 8);
  // Rank 6 of nodes with four: the third GPU.
  CHECK(events_of(trace).at({"gpu_user_annotation", "forward.compute.u1"}).at("pid") == 2);
}

TEST_CASE("an op's kernels share its time by what each would take alone") {
  Schedule schedule = small_step();
  schedule.kernels = {gemm("qkv", Dtype::bf16, 128, 256, 64),
                      memory_bound("rmsnorm", Dtype::bf16, 1000, 1000)};
  for (Op& op : schedule.roles[0].steps[0].ops) {
    if (op.kind == OpKind::compute && op.phase == Phase::backward) op.kernels = {0, 2};
  }
  const CostTable costs = small_step_costs(schedule);
  TraceOptions options;
  options.kernel_seconds = [](const Kernel& kernel) {
    return kernel.kind == KernelKind::gemm ? 2.0 : 1.0;
  };
  const Events events =
      events_of(Json::parse(to_trace(schedule, costs, run_once(schedule, costs), options)));
  const Json& product = events.at({"kernel", "gemm_bf16_128x256x64 (qkv)"});
  CHECK(product.at("ts") == doctest::Approx(9e6));  // B of small_step.hpp runs from 9 to 15
  CHECK(product.at("dur") == doctest::Approx(4e6));
  const Json& norm = events.at({"kernel", "elementwise_bf16 (rmsnorm)"});
  CHECK(norm.at("ts") == doctest::Approx(13e6));
  CHECK(norm.at("dur") == doctest::Approx(2e6));
}

TEST_CASE("each step is marked, on the host where it is issued and on the GPU where it runs") {
  const Events events = events_of(small_trace());
  CHECK(events.count({"user_annotation", "ProfilerStep#0"}) == 1);
  const Json& gpu = events.at({"gpu_user_annotation", "ProfilerStep#0"});
  CHECK(gpu.at("ts") == doctest::Approx(0));
  CHECK(gpu.at("dur") == doctest::Approx(18e6));
}

TEST_CASE("names are NCCL's and PyTorch's") {
  Op op;
  op.collective = CollectiveKind::reduce_scatter;
  op.dtype = Dtype::bf16;
  op.reduction = Reduction::avg;
  CHECK(nccl_kernel_name(op, "Ring/Simple 24ch") ==
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)");
  CHECK(nccl_kernel_name(op, "") ==
        "ncclDevKernel_ReduceScatter_Sum_bf16(ncclDevKernelArgsStorage<4096ul>)");
  CHECK(nccl_channels("Ring/Simple 24ch") == 24);
  CHECK(nccl_channels("peer copies") == 0);
  std::vector<int> ranks;
  for (int i = 0; i < 40; ++i) ranks.push_back(i);
  CHECK(torch_ranks(ranks).ends_with("27, 28, ..., 39]"));
  CHECK(memcpy_name(CopyKind::host_to_device) == "Memcpy HtoD (Pinned -> Device)");
}

TEST_CASE("streams are numbered as PyTorch's profiler does") {
  CHECK(trace_stream_number(0) == 7);
  CHECK(trace_stream_number(1) == 16);
  CHECK(trace_stream_number(2) == 20);
}
