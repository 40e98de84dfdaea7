#pragma once
// The sizes of what is trained: a residual MLP on tokens (models/, family mlp).
//
//   h_0 = E[token]      h_{i+1} = h_i + W2_i tanh(W1_i h_i + b1_i) + b2_i      logits = V h_n
//   loss = mean over tokens of the cross-entropy with the label
//
// Tensors are numbered as the model registers them: E; of each block W1 [f,d], b1 [f], W2 [d,f],
// b2 [d]; V (none where it is tied to E).

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast::runtime {

struct MlpShape {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;  // d
  std::int64_t inner = 0;  // f
  int blocks = 0;
  bool tied = false;

  int layers() const { return blocks + 2; }
  int tensors() const { return 4 * blocks + (tied ? 1 : 2); }
  int table() const { return 0; }
  int head() const { return tied ? 0 : 4 * blocks + 1; }
  int up_weight(int block) const { return 1 + 4 * block; }  // then up_bias, down_weight, down_bias
  std::int64_t elements(int tensor) const;
  // Whether the layer (0 the table, 1 .. blocks, then the head) computes with the tensor.
  bool uses(int layer, int tensor) const {
    if (layer == 0) return tensor == table();
    if (layer == blocks + 1) return tensor == head();
    return tensor >= up_weight(layer - 1) && tensor < up_weight(layer - 1) + 4;
  }
};

using Tensors = std::vector<std::vector<double>>;  // by tensor

// The same on every rank and for every world size.
Tensors initial_parameters(const MlpShape& shape, std::uint64_t seed);

struct AdamW {
  double rate = 0.01;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;
};

struct Sgd {
  double rate = 0.05;
  double momentum = 0.9;  // of sgd_momentum
};

enum class UpdateRule : std::uint8_t { adamw, sgd_momentum, sgd };

// A sample that is not there: its tokens are read, but its labels are ignored, and the mean loss is
// over the others (PyTorch's ignore_index). How a rank fills up a batch that is too small.
inline constexpr std::int64_t no_sample = -1;
inline constexpr std::int64_t ignored_label = -100;

// The dataset: token and label at a position of a sequence. Nothing to download.
std::int64_t token_of(const MlpShape& shape, std::int64_t sample, std::int64_t position);
std::int64_t label_of(const MlpShape& shape, std::int64_t sample, std::int64_t position);

}  // namespace stepcast::runtime
