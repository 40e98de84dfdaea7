#include "runtime/cuda/plugin/cuda_kernels.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/cuda/plugin/check.hpp"
#include "runtime/cuda/plugin/types.hpp"

namespace stepcast::runtime {

// What it reads lies from the beginning of the device's random numbers on, what it writes from that
// of the room for results.
struct GpuKernel {
  KernelKind kind = KernelKind::memory;
  std::string label;
  struct Operand {
    bool result = false;  // of an earlier product
    Bytes at = 0;
  };
  // gemm, convolution: one product; unfused attention: several, with softmaxes between
  struct Product {
    cuda::LtProduct plan;
    Operand a, b;
    Bytes c = 0;
  };
  std::vector<Product> products;
  std::int64_t softmax_rows = 0, softmax_columns = 0, square = 0;  // 0: none
  bool causal = false;
  cuda::Type type = cuda::Type::bf16;
  // fused attention
  bool fused = false;
  cuda::SdpaPlan sdpa;
  // memory-bound
  Bytes read = 0, written = 0;
  int launches = 1;
};

}  // namespace stepcast::runtime

namespace stepcast::cuda {
namespace {

using runtime::GpuError;
using runtime::GpuKernel;
using runtime::GpuStream;

constexpr Bytes alignment = 256;

class CudaKernels : public runtime::GpuKernels {
 public:
  CudaKernels(std::shared_ptr<CublasLt> cublas, std::shared_ptr<Cudnn> cudnn, std::string no_cudnn)
      : cublas_(std::move(cublas)), cudnn_(std::move(cudnn)), no_cudnn_(std::move(no_cudnn)) {}

  void room(Room size) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    grow(mine(), size);
  }

  GpuKernel* prepare(const Kernel& kernel) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Device& device = mine();
    const Shape shape{static_cast<int>(kernel.kind),
                      static_cast<int>(kernel.dtype),
                      kernel.causal,
                      kernel.fused,
                      kernel.m,
                      kernel.n,
                      kernel.k,
                      kernel.batch,
                      kernel.heads,
                      kernel.kv_heads,
                      kernel.bytes_read,
                      kernel.bytes_written,
                      kernel.launches};
    const auto known = device.kernels.find(shape);
    if (known != device.kernels.end()) return known->second;
    device.all.emplace_back();
    GpuKernel& made = device.all.back();
    made.kind = kernel.kind;
    made.type = type_of(kernel.dtype);
    switch (kernel.kind) {
      case KernelKind::gemm:
      case KernelKind::convolution: product(made, device, kernel); break;
      case KernelKind::attention_forward:
      case KernelKind::attention_backward: attention(made, device, kernel); break;
      case KernelKind::memory:
        made.label = "copy";
        made.launches = std::max(kernel.launches, 1);
        made.read = kernel.bytes_read / made.launches;
        made.written = kernel.bytes_written / made.launches;
        break;
    }
    device.kernels.emplace(shape, &made);
    return &made;
  }

  std::string label(const GpuKernel* kernel) override { return kernel->label; }

  void launch(GpuKernel* kernel, GpuStream* on) override {
    const auto stream = stream_of(on);
    const Device& device = here();
    if (kernel->kind == KernelKind::memory) return stream_through(*kernel, device, stream);
    if (kernel->fused) return cudnn_->launch(kernel->sdpa, stream, device.random, device.results);
    const auto at = [&](GpuKernel::Operand operand) {
      return (operand.result ? device.results : device.random) + operand.at;
    };
    for (std::size_t i = 0; i < kernel->products.size(); ++i) {
      const GpuKernel::Product& p = kernel->products[i];
      cublas_->launch(p.plan, stream, at(p.a), at(p.b), device.results + p.c, device.workspace);
      if (i != 0 || kernel->softmax_rows == 0) continue;
      softmax_rows(stream, device.results + p.c, kernel->softmax_rows, kernel->softmax_columns,
                   kernel->type, kernel->causal, kernel->square);
      check(cudaGetLastError(), "softmax");
    }
  }

 private:
  using Shape = std::tuple<int, int, bool, bool, std::int64_t, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t, std::int64_t, Bytes, Bytes, int>;
  struct Device {
    std::byte* random = nullptr;
    std::byte* results = nullptr;
    std::byte* workspace = nullptr;
    Room size;
    std::deque<GpuKernel> all;
    std::map<Shape, GpuKernel*> kernels;
  };

  Device& mine() {
    int device = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    return devices_[device];
  }

  // Other ranks of this process have devices of their own, which they may be adding.
  const Device& here() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return mine();
  }

  void grow(Device& device, Room size) {
    if (device.workspace == nullptr) {
      Bytes none = 0;
      grow(device.workspace, none, CublasLt::workspace_bytes);
    }
    if (grow(device.random, device.size.read, size.read)) {
      random_operands(nullptr, device.random, device.size.read / 2, 1);
      check(cudaGetLastError(), "random_operands");
      CUDA_CHECK(cudaDeviceSynchronize());
    }
    grow(device.results, device.size.written, size.written);
  }
  static bool grow(std::byte*& memory, Bytes& now, Bytes size) {
    size = round_up(std::max<Bytes>(size, 1 << 20), alignment);
    if (size <= now) return false;
    CUDA_CHECK(cudaDeviceSynchronize());
    if (memory != nullptr) CUDA_CHECK(cudaFree(memory));
    memory = nullptr;
    now = 0;
    void* made = nullptr;
    check(cudaMalloc(&made, static_cast<std::size_t>(size)), "cudaMalloc of the kernels' operands");
    memory = static_cast<std::byte*>(made);
    now = size;
    return true;
  }

  void product(GpuKernel& made, Device& device, const Kernel& k) {
    made.label = k.kind == KernelKind::gemm ? "cuBLASLt" : "cuBLASLt, as the product it is";
    const Bytes size = bytes_per_element(k.dtype);
    const Bytes a = round_up(size * k.batch * k.m * k.k, alignment);
    const Bytes b = round_up(size * k.batch * k.k * k.n, alignment);
    const Bytes c = (k.dtype == Dtype::fp8 ? 2 : size) * k.batch * k.m * k.n;
    made.products.push_back(
        {cublas_->plan(k.dtype, false, k.m, k.n, k.k, k.batch), {false, 0}, {false, a}, 0});
    grow(device, {a + b, c});
  }

  void attention(GpuKernel& made, Device& device, const Kernel& k) {
    std::string why = k.fused ? no_cudnn_ : "";
    if (k.fused && cudnn_) {
      try {
        made.sdpa = cudnn_->plan(k);
        made.fused = true;
        made.label = k.causal ? "cuDNN SDPA on half of the keys" : "cuDNN SDPA";
        grow(device, Cudnn::room_of(made.sdpa));
        return;
      } catch (const GpuError& no) {
        why = no.what();
      }
    }
    made.label = "batched GEMM and softmax" + (why.empty() ? "" : " (" + why + ")");
    unfused(made, device, k);
  }

  // Scores [m,n] = Q K^T a head, softmax, times V; backward: scores again, dV = P^T dO, dP = dO
  // V^T, dQ = dS K, dK = dS^T Q. Key heads are repeated, as without a fused kernel.
  void unfused(GpuKernel& made, Device& device, const Kernel& k) {
    const Bytes size = bytes_per_element(k.dtype);
    const std::int64_t batch = k.batch * k.heads;
    const Bytes q = round_up(size * batch * k.m * k.k, alignment);
    const Bytes key = round_up(size * batch * k.n * k.k, alignment);
    const Bytes scores = round_up(size * batch * k.m * k.n, alignment);
    const GpuKernel::Operand at_q{false, 0};
    const GpuKernel::Operand at_k{false, q};
    const GpuKernel::Operand at_v{false, q + key};
    const GpuKernel::Operand at_do{false, q + 2 * key};
    const GpuKernel::Operand at_s{true, 0};
    const GpuKernel::Operand at_dp{true, scores};
    const Bytes behind_s = scores;       // O
    const Bytes behind_dp = 2 * scores;  // dQ, dK, dV
    made.softmax_rows = batch * k.m;
    made.softmax_columns = k.n;
    made.square = k.m;
    made.causal = k.causal;
    const auto add = [&](bool transposed, std::int64_t m, std::int64_t n, std::int64_t inner,
                         GpuKernel::Operand a, GpuKernel::Operand b, Bytes c) {
      made.products.push_back({cublas_->plan(k.dtype, transposed, m, n, inner, batch), a, b, c});
    };
    add(true, k.m, k.n, k.k, at_q, at_k, 0);  // S
    if (k.kind == KernelKind::attention_forward) {
      add(false, k.m, k.k, k.n, at_s, at_v, behind_s);  // O
      grow(device, {q + 2 * key, scores + q});
      return;
    }
    add(false, k.n, k.k, k.m, at_s, at_do, behind_dp);            // dV
    add(true, k.m, k.n, k.k, at_do, at_v, scores);                // dP
    add(false, k.m, k.k, k.n, at_dp, at_k, behind_dp + key);      // dQ
    add(false, k.n, k.k, k.m, at_dp, at_q, behind_dp + key + q);  // dK
    grow(device, {2 * q + 2 * key, 2 * scores + 2 * key + q});
  }

  // In pieces where the room is smaller than the kernel: what L2 keeps of gigabytes is nothing.
  static void stream_through(const GpuKernel& kernel, const Device& device, cudaStream_t stream) {
    for (int i = 0; i < kernel.launches; ++i) {
      Bytes read = kernel.read;
      Bytes written = kernel.written;
      do {
        const Bytes r = std::min(read, device.size.read);
        const Bytes w = std::min(written, device.size.written);
        stream_bytes(stream, device.random, r, device.results, w);
        check(cudaGetLastError(), "stream_bytes");
        read -= r;
        written -= w;
      } while (read > 0 || written > 0);
    }
  }

  std::shared_ptr<CublasLt> cublas_;
  std::shared_ptr<Cudnn> cudnn_;
  std::string no_cudnn_;
  std::mutex mutex_;
  std::map<int, Device> devices_;
};

}  // namespace

std::unique_ptr<runtime::GpuKernels> make_kernels(std::shared_ptr<CublasLt> cublas,
                                                  std::shared_ptr<Cudnn> cudnn,
                                                  std::string no_cudnn) {
  return std::make_unique<CudaKernels>(std::move(cublas), std::move(cudnn), std::move(no_cudnn));
}

}  // namespace stepcast::cuda
