#include "sim/strategies/ddp/pieces.hpp"

namespace stepcast::ddp {
namespace {

// Counts what each bucket still misses, as the reducer does.
class Pending {
 public:
  Pending(const std::vector<Bucket>& buckets, std::size_t parameters) : bucket_of_(parameters) {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      missing_.push_back(buckets[b].tensors.size());
      for (const int p : buckets[b].tensors) bucket_of_[static_cast<std::size_t>(p)] = b;
    }
  }
  void ready(int parameter) { --missing_[bucket_of_[static_cast<std::size_t>(parameter)]]; }
  // Buckets that are complete and whose turn it is.
  std::vector<int> take() {
    std::vector<int> launches;
    while (next_ < missing_.size() && missing_[next_] == 0) {
      launches.push_back(static_cast<int>(next_++));
    }
    return launches;
  }
  int launched() const { return static_cast<int>(next_); }

 private:
  std::vector<std::size_t> bucket_of_;
  std::vector<std::size_t> missing_;
  std::size_t next_ = 0;
};

}  // namespace

Pieces plan_pieces(const TrainingStep& step, const LayerWalk& walk,
                   const std::vector<Bucket>& buckets, const std::vector<bool>& unused,
                   bool marks) {
  const Model& model = step.model;
  const Bytes element = bytes_per_element(step.precision.gradient);
  const auto is_unused = [&](int p) {
    return !unused.empty() && unused[static_cast<std::size_t>(p)];
  };
  Pending pending(buckets, model.parameters.size());
  bool to_mark = marks && !unused.empty();
  Pieces pieces;
  pieces.of_layer.resize(static_cast<std::size_t>(walk.layers()));
  for (int layer = walk.layers(); layer-- > 0;) {
    const std::vector<BackwardKernel>& kernels = walk.work(layer).backward;
    const int first_parameter = model.layers[static_cast<std::size_t>(layer)].first_parameter;
    const auto first_piece = static_cast<std::int32_t>(pieces.all.size());
    Piece piece;
    piece.layer = layer;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      ++piece.kernel_count;
      for (const int local : kernels[k].ready) {
        const int parameter = first_parameter + local;
        if (is_unused(parameter)) continue;
        if (to_mark) {
          for (int p = 0; p < static_cast<int>(model.parameters.size()); ++p) {
            if (!is_unused(p)) continue;
            piece.marked.push_back(p);
            pending.ready(p);
          }
          to_mark = false;
        }
        piece.parameters.push_back(parameter);
        piece.bytes += model.parameters[static_cast<std::size_t>(parameter)].elements() * element;
        pending.ready(parameter);
      }
      piece.launches = pending.take();
      if (!piece.launches.empty() || k + 1 == kernels.size()) {
        const int next_kernel = piece.first_kernel + piece.kernel_count;
        pieces.all.push_back(std::move(piece));
        piece = Piece{};
        piece.layer = layer;
        piece.first_kernel = next_kernel;
      }
    }
    pieces.of_layer[static_cast<std::size_t>(layer)] = {
        first_piece, static_cast<std::int32_t>(pieces.all.size()) - first_piece};
  }
  pieces.launched = pending.launched();
  return pieces;
}

}  // namespace stepcast::ddp
