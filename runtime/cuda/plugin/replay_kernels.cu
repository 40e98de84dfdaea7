// Small kernels of a replay: bytes that stream through HBM, random operands, the softmax of an
// unfused attention.

#include "runtime/cuda/plugin/device_numbers.cuh"

namespace stepcast::cuda {
namespace {

// Every thread moves 16 bytes at a time; reads that are not written are kept alive by a condition
// that is never true.
__global__ void stream_kernel(const uint4* from, std::int64_t read, uint4* to,
                              std::int64_t written) {
  uint4 kept = {0, 0, 0, 0};
  const std::int64_t both = read < written ? read : written;
  for (std::int64_t i = first_index(); i < both; i += stride()) to[i] = from[i];
  for (std::int64_t i = both + first_index(); i < read; i += stride()) {
    const uint4 x = from[i];
    kept.x ^= x.x;
    kept.y ^= x.y;
    kept.z ^= x.z;
    kept.w ^= x.w;
  }
  for (std::int64_t i = both + first_index(); i < written; i += stride()) to[i] = kept;
  if ((kept.x & kept.y & kept.z & kept.w) == 0xffffffffu && read > both && written > 0)
    to[0] = kept;
}

__global__ void random_kernel(unsigned short* to, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < count; i += stride()) {
    std::uint64_t z = seed + 0x9e3779b97f4a7c15ull * static_cast<std::uint64_t>(i + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    const auto x = static_cast<float>(static_cast<double>(z >> 11) * 0x1p-52 - 1.0);
    to[i] = __bfloat16_as_ushort(__float2bfloat16_rz(x)) & 0xfffeu;
  }
}

__global__ void softmax_kernel(At scores, std::int64_t rows, std::int64_t columns, bool causal,
                               std::int64_t rows_of_a_square) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const std::int64_t seen =
        causal ? min(columns, r % rows_of_a_square + 1 + columns - rows_of_a_square) : columns;
    double top = -INFINITY;
    for (std::int64_t c = threadIdx.x; c < seen; c += blockDim.x) {
      top = fmax(top, load(scores, r * columns + c, Fault{nullptr, 0}));
    }
    top = block_max(top);
    double sum = 0;
    for (std::int64_t c = threadIdx.x; c < seen; c += blockDim.x) {
      sum += expf(static_cast<float>(load(scores, r * columns + c, Fault{nullptr, 0}) - top));
    }
    sum = block_sum(sum);
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
      const double x = load(scores, r * columns + c, Fault{nullptr, 0});
      store(scores, r * columns + c, c < seen ? expf(static_cast<float>(x - top)) / sum : 0.0);
    }
    __syncthreads();
  }
}

}  // namespace

void stream_bytes(cudaStream_t s, const void* from, std::int64_t read, void* to,
                  std::int64_t written) {
  const std::int64_t most = (read > written ? read : written) / 16;
  // Four 16-byte pieces a thread: enough in flight, and few enough blocks to start quickly.
  stream_kernel<<<blocks_for((most + 3) / 4), threads, 0, s>>>(
      static_cast<const uint4*>(from), read / 16, static_cast<uint4*>(to), written / 16);
}
void random_operands(cudaStream_t s, void* to, std::int64_t count, std::uint64_t seed) {
  random_kernel<<<blocks_for(count), threads, 0, s>>>(static_cast<unsigned short*>(to), count,
                                                      seed);
}
void softmax_rows(cudaStream_t s, void* scores, std::int64_t rows, std::int64_t columns, Type type,
                  bool causal, std::int64_t rows_of_a_square) {
  softmax_kernel<<<a_block_a_row(rows), threads, 0, s>>>(At{scores, type, 0}, rows, columns, causal,
                                                         rows_of_a_square);
}

}  // namespace stepcast::cuda
