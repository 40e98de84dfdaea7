// What a trace says about its steps, worked out by hand.
#include <doctest/doctest.h>

#include <sstream>

#include "base/error.hpp"
#include "sim/interop/kernel_class.hpp"
#include "sim/interop/trace_compare.hpp"
#include "sim/interop/trace_summary.hpp"

using namespace stepcast;

namespace {

// Events of one process (pid 100) and one GPU, times in microseconds.
class Trace {
 public:
  // From here on the host has no marks.
  Trace& without_marks() {
    marks_ = false;
    return *this;
  }
  Trace& mark(int step, double begin, double end) {
    if (!marks_) return *this;
    return event(R"("cat":"user_annotation","name":"ProfilerStep#)" + std::to_string(step) + '"',
                 100, 1, begin, end, "");
  }
  Trace& gpu_mark(int step, int stream, double begin, double end) {
    return event(
        R"("cat":"gpu_user_annotation","name":"ProfilerStep#)" + std::to_string(step) + '"', 0,
        stream, begin, end, "");
  }
  // A launch that returns at `launched`, 2 after it began, and its kernel.
  Trace& kernel(const char* name, int stream, double launched, double start, double end,
                const std::string& more = "") {
    const std::string correlation = R"("correlation":)" + std::to_string(++last_);
    event(R"("cat":"cuda_runtime","name":"cudaLaunchKernel")", 100, 1, launched - 2, launched,
          correlation);
    return event(std::string(R"("cat":"kernel","name":")") + name + '"', 0, stream, start, end,
                 correlation + R"(,"device":0,"stream":)" + std::to_string(stream) + more);
  }
  Trace& synchronise(double begin, double end) {
    return event(R"("cat":"cuda_runtime","name":"cudaDeviceSynchronize")", 100, 1, begin, end, "");
  }
  Trace& loader(double begin, double end) {
    return event(R"("cat":"user_annotation","name":"enumerate(DataLoader)#_X.__next__")", 100, 1,
                 begin, end, "");
  }
  TraceSummary read(const TraceSummaryOptions& options = {}) const {
    std::istringstream in("{\"traceEvents\":[" + text_ + "]}");
    return summary_of_trace(in, "by-hand.json", options);
  }

 private:
  Trace& event(const std::string& head, int pid, int tid, double begin, double end,
               const std::string& args) {
    if (!text_.empty()) text_ += ",\n";
    text_ += "{\"ph\":\"X\"," + head + ",\"pid\":" + std::to_string(pid) +
             ",\"tid\":" + std::to_string(tid) + ",\"ts\":" + std::to_string(begin) +
             ",\"dur\":" + std::to_string(end - begin) + ",\"args\":{" + args + "}}";
    return *this;
  }

  std::string text_;
  int last_ = 0;
  bool marks_ = true;
};

std::string gathers(int elements) {
  return R"(,"Collective name":"_allgather_base","dtype":"BFloat16","Group size":8,"In msg nelems":)" +
         std::to_string(elements / 8) + R"(,"Out msg nelems":)" + std::to_string(elements);
}
std::string scatters(int elements) {
  return R"(,"Collective name":"_reduce_scatter_base","dtype":"Float","Group size":8,"In msg nelems":)" +
         std::to_string(elements) + R"(,"Out msg nelems":)" + std::to_string(elements / 8);
}

// Step 2 lasts from 50 to 200, step 3 to 239.
//
//   stream 7    |gemm 3-50|      53 host       |..|gemm 123-163|..27..|adam 190-200| |norm 229-239|
//   stream 20                     |AG 103-123|      |RS 140-190|          |RS 208-218|
Trace by_hand(Trace t = {}) {
  t.mark(1, 0, 90).kernel("gemm_bf16_1x1x1", 7, 2, 3, 50);
  t.mark(2, 100, 160)
      .kernel("ncclDevKernel_AllGather_RING_LL(x)", 20, 102, 103, 123, gathers(8000))
      .kernel("nvjet_tst_128x160", 7, 106, 123, 163)
      .kernel("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", 20, 112, 140, 190, scatters(16000))
      .kernel("multi_tensor_apply_kernel<Adam>", 7, 152, 190, 200);
  t.mark(3, 203, 300)
      .kernel("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", 20, 207, 208, 218, scatters(16000))
      .synchronise(208, 220)
      .kernel("rms_norm", 7, 227, 229, 239);
  return t;
}

double exposed(const TraceStep& step, const char* kind) {
  const auto at = step.exposed_by_kind_us.find(kind);
  return at == step.exposed_by_kind_us.end() ? 0 : at->second;
}

}  // namespace

TEST_CASE("a gap before a kernel of no length counts once") {
  std::istringstream in(R"({"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 0, "args": {"stream": 23}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "a", "ts": 0.5, "args": {"stream": 7}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "b", "ts": 0.5, "dur": 2, "args": {"stream": 7}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "c", "ts": 1.5, "dur": 2, "args": {"stream": 7}}]})");
  const TraceSummary s = summary_of_trace(in, "test");
  REQUIRE(s.steps.size() == 1);
  CHECK(s.steps[0].length_us() == doctest::Approx(3.5));
  CHECK(s.steps[0].compute_us() == doctest::Approx(3.0));  // 0.5 to 3.5
  CHECK(s.steps[0].idle_us == doctest::Approx(0.5));
}

TEST_CASE("a step lasts from the last kernel of the step before to its own last kernel") {
  const TraceSummary s = by_hand().read();
  REQUIRE(s.steps.size() == 3);
  CHECK(s.main_stream == 7);
  CHECK(s.steps[0].begin_us == 3);
  CHECK(s.steps[0].end_us == 50);
  CHECK(s.steps[1].name == "ProfilerStep#2");
  CHECK(s.steps[1].begin_us == 50);
  CHECK(s.steps[1].end_us == 200);
  CHECK(s.steps[2].end_us == 239);
  CHECK(s.typical == 1);  // of 150 and 39 the later of the middle two
}

TEST_CASE("steps that only the GPU's streams mark are steps") {
  const TraceSummary of_host = by_hand().read();
  const TraceSummary s = by_hand(Trace().without_marks())
                             .gpu_mark(1, 7, 3, 50)
                             .gpu_mark(2, 20, 103, 190)
                             .gpu_mark(2, 7, 123, 200)
                             .gpu_mark(3, 20, 208, 218)
                             .gpu_mark(3, 7, 229, 239)
                             .read();
  REQUIRE(s.steps.size() == 3);
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    CHECK(s.steps[i].name == of_host.steps[i].name);
    CHECK(s.steps[i].begin_us == of_host.steps[i].begin_us);
    CHECK(s.steps[i].end_us == of_host.steps[i].end_us);
    CHECK(s.steps[i].kernels == of_host.steps[i].kernels);
    CHECK(s.steps[i].host_us == of_host.steps[i].host_us);
    CHECK(s.steps[i].exposed_us() == of_host.steps[i].exposed_us());
  }
}

// stream 7    |#1 a 0-10|#1 b 20-30|#2 c 40-50|   d 60-70, no step's
// stream 13   |#2 copy 5-8|                        step 2's input
// stream 20         |reduce 22-28|                 a stream without marks
TEST_CASE("a kernel belongs to the mark of its own stream, whatever the others have begun") {
  Trace t;
  t.kernel("a", 7, 1, 0, 10).kernel("copy", 13, 2, 5, 8).kernel("b", 7, 3, 20, 30);
  t.kernel("reduce", 20, 4, 22, 28).kernel("c", 7, 5, 40, 50).kernel("d", 7, 55, 60, 70);
  const TraceSummary s =
      t.gpu_mark(2, 13, 5, 8).gpu_mark(2, 7, 40, 50).gpu_mark(1, 7, 0, 30).read();
  REQUIRE(s.steps.size() == 2);
  CHECK(s.steps[0].name == "ProfilerStep#1");
  CHECK(s.steps[0].kernels == 3);  // a, b and reduce
  CHECK(s.steps[0].end_us == 30);
  CHECK(s.steps[1].kernels == 2);  // copy and c
  CHECK(s.steps[1].begin_us == 30);
  CHECK(s.steps[1].end_us == 50);
}

TEST_CASE("the host's marks count before the GPU's, and those of another device not at all") {
  Trace t;
  t.mark(4, 0, 3).mark(5, 3, 9).kernel("a", 7, 2, 2, 10).kernel("b", 7, 6, 20, 30);
  // As if both kernels were step 5's.
  const TraceSummary s = t.gpu_mark(5, 7, 2, 30).read();
  REQUIRE(s.steps.size() == 2);
  CHECK(s.steps[0].kernels == 1);
  std::istringstream other(R"({"traceEvents": [
    {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 7, "ts": 0,
     "dur": 9},
    {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 4, "args": {"device": 0, "stream": 7}}
    ]})");
  CHECK(summary_of_trace(other, "test").steps.at(0).name == "trace");
}

TEST_CASE("a gap is the host's while nothing was launched, and exposed while a collective runs") {
  const TraceSummary s = by_hand().read();
  const TraceStep& step = s.steps[1];
  CHECK(step.host_us == doctest::Approx(53));
  CHECK(exposed(step, "all_gather") == doctest::Approx(20));
  CHECK(exposed(step, "reduce_scatter") == doctest::Approx(27));
  CHECK(step.class_us[static_cast<int>(KernelClass::gemm)] == doctest::Approx(40));
  CHECK(step.class_us[static_cast<int>(KernelClass::optimizer)] == doctest::Approx(10));
  CHECK(step.idle_us == doctest::Approx(0));
  CHECK(step.compute_us() + step.exposed_us() + step.host_us + step.idle_us ==
        doctest::Approx(step.length_us()));
  CHECK(step.collective_us == doctest::Approx(70));
  CHECK(step.hidden_us == doctest::Approx(23));  // beside the product: 140 to 163
}

TEST_CASE("what the host waited for before it launched is not the host's own time") {
  const TraceStep step = by_hand().read().steps[2];
  // 200-208 nothing was launched, 208-218 the reduce-scatter, 218-220 still held, 220-229 late.
  CHECK(step.host_us == doctest::Approx(8 + 9));
  CHECK(exposed(step, "reduce_scatter") == doctest::Approx(10));
  CHECK(step.idle_us == doctest::Approx(2));
  CHECK(step.class_us[static_cast<int>(KernelClass::normalisation)] == doctest::Approx(10));
}

TEST_CASE("a copy around a collective in the same gap counts with it, alone it is idle") {
  Trace t;
  t.mark(1, 0, 100)
      .kernel("gemm_x", 7, 2, 3, 20)
      .kernel("copy_in", 24, 4, 20, 26)
      .kernel("ncclDevKernel_AllGather_RING_LL(x)", 20, 5, 26, 40, gathers(8000))
      .kernel("gemm_x", 7, 6, 40, 60)
      .kernel("copy_alone", 24, 7, 60, 65)
      .kernel("gemm_x", 7, 8, 65, 70);
  const TraceStep step = t.read().steps[0];
  CHECK(exposed(step, "all_gather") == doctest::Approx(20));
  CHECK(step.idle_us == doctest::Approx(5));
}

TEST_CASE("late because of the data is the loader's") {
  Trace t;
  t.mark(1, 0, 100).kernel("gemm_x", 7, 2, 3, 20).loader(22, 50).kernel("gemm_x", 7, 60, 61, 70);
  const TraceStep step = t.read().steps[0];
  CHECK(exposed(step, "loader") == doctest::Approx(28));
  CHECK(step.host_us == doctest::Approx(41 - 28));
}

TEST_CASE(
    "collectives have nccl-tests' size, and a kind by the kernel's name where nothing else says") {
  Trace t;
  t.kernel("gemm_x", 7, 2, 3, 50)
      .kernel("ncclDevKernel_AllGather_RING_LL(x)", 20, 4, 5, 15, gathers(8000))
      .kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", 20, 6, 15, 20)
      .kernel("ncclDevKernel_Generic(x)", 20, 7, 20, 22);
  const TraceSummary s = t.read();
  REQUIRE(s.steps.size() == 1);
  CHECK(s.steps[0].name == "trace");  // no marks: all of it is one step
  REQUIRE(s.steps[0].calls.size() == 3);
  CHECK(s.steps[0].calls[0].kind == "all_gather");
  CHECK(s.steps[0].calls[0].bytes == 16000);
  CHECK(s.steps[0].calls[0].ranks == 8);
  CHECK(s.steps[0].calls[0].dtype == "bf16");
  CHECK(s.steps[0].calls[1].kind == "send_recv");
  CHECK(s.steps[0].calls[1].bytes == 0);
  CHECK(s.steps[0].calls[2].kind == "unknown");
}

TEST_CASE("a trace without kernels, or without the device that was asked for, is refused") {
  CHECK_THROWS_WITH_AS(Trace().mark(1, 0, 5).read(),
                       "by-hand.json: traceEvents: has no kernels of a GPU; accepted: a trace with "
                       "ProfilerActivity.CUDA",
                       InputError);
  CHECK_THROWS_WITH_AS(by_hand().read({.device = 3}),
                       "--device: 3 has no kernels in by-hand.json; accepted: 0", InputError);
}

TEST_CASE("the rank that the others wait for has the shortest collectives") {
  const auto rank = [](double start) {
    Trace t;
    t.mark(1, 0, 10)
        .kernel("gemm_x", 7, 2, 3, start)
        .kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, 4, start, 60);
    return t.read();
  };
  const std::vector<double> waited = waited_for_others_us({rank(30), rank(50), rank(20)});
  REQUIRE(waited.size() == 3);
  CHECK(waited[0] == doctest::Approx(20));
  CHECK(waited[1] == doctest::Approx(0));
  CHECK(waited[2] == doctest::Approx(30));
  CHECK(waited_for_others_us({rank(30), by_hand().read()}).empty());  // other collectives
}

TEST_CASE("kernels are told apart by their names") {
  const auto is = [](const char* name, KernelClass what) {
    CAPTURE(name);
    CHECK(to_string(class_of_kernel(name)) == to_string(what));
  };
  is("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT", KernelClass::gemm);
  is("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3>",
     KernelClass::gemm);
  is("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90>>",
     KernelClass::attention);
  is("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32", KernelClass::convolution);
  is("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 32>", KernelClass::normalisation);
  is("triton_red_fused__fused_rms_norm_backward_mul_3", KernelClass::fused);
  is("void at::native::vectorized_elementwise_kernel<8, at::native::AUnaryFunctor>",
     KernelClass::elementwise);
  is("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor>", KernelClass::optimizer);
  is("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", KernelClass::copy);
  is("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", KernelClass::collective);
  is("gemm_bf16_14336x4096x8192 (gate_proj.wgrad)", KernelClass::gemm);
  is("XXT_kernel", KernelClass::other);
  CHECK(collective_of_kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)") ==
        "reduce_scatter");
  CHECK(collective_of_kernel("ncclDevKernel_Reduce_Sum_f32_RING_LL(x)") == "reduce");
  CHECK(collective_of_kernel("ncclDevKernel_Generic(x)").empty());
}

TEST_CASE("two traces: which part is longer, and which calls only one of them has") {
  const auto trace = [](bool second_gather, double product) {
    Trace t;
    t.mark(1, 0, 10).kernel("ncclDevKernel_AllGather_RING_LL(x)", 20, 2, 3, 13, gathers(8000));
    t.kernel("gemm_x", 7, 4, 13, 13 + product);
    if (second_gather) {
      t.kernel("ncclDevKernel_AllGather_RING_LL(x)", 20, 5, 14, 16, gathers(800));
    }
    t.kernel("ncclDevKernel_AllGather_RING_LL(x)", 20, 6, 17, 21, gathers(1600));
    return t.read();
  };
  const TraceComparison c = compare_traces(trace(true, 30), trace(false, 50));
  CHECK(c.step_a_us == doctest::Approx(40));
  CHECK(c.step_b_us == doctest::Approx(60));
  REQUIRE(c.parts.size() == 2);
  CHECK(c.parts[0].name == "gemm");  // the largest difference
  CHECK(c.parts[0].b_us - c.parts[0].a_us == doctest::Approx(20));
  CHECK(c.parts[1].name == "exposed all_gather");
  CHECK(c.sizes);
  REQUIRE(c.differences.size() == 1);
  CHECK(c.differences[0].kind == "all_gather");
  CHECK(c.differences[0].after == 1);
  REQUIRE(c.differences[0].only_a.size() == 1);
  CHECK(c.differences[0].only_a[0].bytes == 1600);
  CHECK(c.differences[0].only_b.empty());
  CHECK(compare_traces(trace(true, 30), trace(true, 9)).differences.empty());
}
