#pragma once
// A layer written down as it runs forward: each entry says its kernels, those of its backward, and
// what it keeps until then. Backward is the tape in reverse, which is autograd's order: of the
// nodes that are ready, the one made last goes first. Internal to models/.
//
//   Tape tape(sizes);
//   tape.norm("norm1", ...);                 // forward: norm1, q, k
//   tape.fork(2);                            // two readers: their gradients are added up
//   tape.linear("q_proj", h, q, 0, -1);      // backward: k, q, an addition, norm1
//   tape.linear("k_proj", h, k, 1, -1);
//
// Tested by tests/unit/models/composition_test.cpp.

#include <string>
#include <utility>
#include <vector>

#include "models/fp8.hpp"
#include "models/work_parts.hpp"

namespace stepcast {

class Tape {
 public:
  explicit Tape(const Sizes& sizes) : z_(sizes) {}

  // Kernels of any kind; either list may be empty.
  void pair(std::vector<Kernel> forward, std::vector<BackwardKernel> backward) {
    entries_.push_back({std::move(forward), std::move(backward)});
  }
  void pair(const Kernel& forward, const Kernel& backward) {
    entries_.push_back({{forward}, {marks_nothing(backward)}});
  }
  void backward_only(const Kernel& kernel) { entries_.push_back({{}, {marks_nothing(kernel)}}); }

  // y = x W^T + c for `rows` rows (0: every token). Tensors as indices within the layer, -1: none.
  void linear(const std::string& name, std::int64_t in, std::int64_t out, int weight, int bias,
              std::int64_t rows = 0) {
    const LinearNames names(name);
    const Linear linear{names, in, out, weight, bias};
    Sizes z = z_;
    if (rows > 0) z.tokens = rows;
    Entry& entry = entries_.emplace_back();
    linear_forward(z, linear, entry.forward);
    linear_backward(z, linear, entry.backward);
    fp8_.add(z, linear);
    if (z_.casts && !runs_in_fp8(z, linear)) {
      copies_ += z_.element * (in * out + (bias >= 0 ? out : 0));
    }
  }

  // `count` products of `rows` rows each, one kernel (grouped GEMM). `ready`: tensors whose
  // gradient is then complete, in that order.
  void grouped(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t rows,
               std::int64_t count, std::vector<int> ready, std::int64_t extra_elements = 0);

  void norm(const std::string& name, std::int64_t rows, std::int64_t width, Bytes input, int weight,
            int bias, bool added = false, int gradients = 1, bool joined = false) {
    const NormNames names(name);
    const Norm norm{names, rows, width, input, weight, bias};
    Entry& entry = entries_.emplace_back();
    norm_forward(z_, norm, entry.forward, added);
    norm_backward(z_, norm, entry.backward, gradients, joined);
  }

  // A tensor of `elements` with so many readers.
  void fork(int readers, std::int64_t elements, Bytes element);

  void keep(Bytes bytes) { kept_ += bytes; }
  Bytes kept() const { return kept_; }
  // Of weights: autocast's, Transformer Engine's.
  Bytes copies() const { return copies_ + fp8_.weights; }
  const Fp8Bytes& fp8() const { return fp8_; }

  void write(std::vector<Kernel>& forward, std::vector<BackwardKernel>& backward) const {
    for (const Entry& entry : entries_) {
      forward.insert(forward.end(), entry.forward.begin(), entry.forward.end());
    }
    for (std::size_t i = entries_.size(); i-- > 0;) {
      const std::vector<BackwardKernel>& list = entries_[i].backward;
      backward.insert(backward.end(), list.begin(), list.end());
    }
  }

 private:
  struct Entry {
    std::vector<Kernel> forward;
    std::vector<BackwardKernel> backward;
  };

  Sizes z_;
  std::vector<Entry> entries_;
  Bytes kept_ = 0;
  Bytes copies_ = 0;
  Fp8Bytes fp8_;
};

// Layers of a composed model.
struct Composition;
void composed_work(const Sizes& sizes, const Layer& layer, int number, const Model& model,
                   LayerWork& work);

}  // namespace stepcast
