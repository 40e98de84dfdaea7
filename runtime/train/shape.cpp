#include "runtime/train/shape.hpp"

#include <cmath>

#include "base/error.hpp"

namespace stepcast::runtime {
namespace {

// splitmix64: a good hash of a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::int64_t draw(std::uint64_t stream, std::int64_t sample, std::int64_t position,
                  std::int64_t below) {
  const std::uint64_t at =
      mix(static_cast<std::uint64_t>(sample) * 1'000'003u + static_cast<std::uint64_t>(position));
  return static_cast<std::int64_t>(mix(at ^ stream) % static_cast<std::uint64_t>(below));
}

}  // namespace

std::int64_t MlpShape::elements(int tensor) const {
  if (tensor == table() || tensor == head()) return vocabulary * width;
  switch ((tensor - 1) % 4) {
    case 0:
    case 2: return width * inner;
    case 1: return inner;
    default: return width;
  }
}

Tensors initial_parameters(const MlpShape& shape, std::uint64_t seed) {
  Tensors tensors(static_cast<std::size_t>(shape.tensors()));
  std::uint64_t counter = mix(seed);
  for (int t = 0; t < shape.tensors(); ++t) {
    std::vector<double>& tensor = tensors[static_cast<std::size_t>(t)];
    tensor.resize(static_cast<std::size_t>(shape.elements(t)));
    // A multiple of 2^-12 below 1/2: exact in fp32, so every precision starts alike.
    for (double& x : tensor) {
      x = static_cast<double>(static_cast<std::int64_t>(mix(++counter) % 4096) - 2048) / 4096.0;
    }
  }
  return tensors;
}

std::int64_t token_of(const MlpShape& shape, std::int64_t sample, std::int64_t position) {
  if (sample == no_sample) return 0;
  return draw(1, sample, position, shape.vocabulary);
}

std::int64_t label_of(const MlpShape& shape, std::int64_t sample, std::int64_t position) {
  if (sample == no_sample) return ignored_label;
  // A rule that can be learnt, and every third label at random.
  const std::int64_t noise = draw(2, sample, position, 3);
  if (noise == 0) return draw(3, sample, position, shape.vocabulary);
  return (token_of(shape, sample, position) * 7 + 3) % shape.vocabulary;
}

}  // namespace stepcast::runtime
