#include "sim/advise/largest_model.hpp"

#include <algorithm>
#include <optional>

#include "models/composition.hpp"
#include "sim/advise/candidate.hpp"
#include "sim/forecast/fit.hpp"

namespace stepcast {
namespace {

constexpr std::int64_t most_layers = 16384;
constexpr double textbook_bytes = 16;  // 2 + 2 + 12, or 4 + 4 + 8

class Question {
 public:
  explicit Question(const Scenario& scenario) : resolved_(resolve(scenario)) {}

  // One stack of blocks that may have more of them; not an encoder and a decoder, nor thousands of
  // experts' tensors.
  bool is_stack() const {
    const Architecture& a = resolved_.step.model.architecture;
    if (a.layers == 0) return false;
    if (a.family != Family::composed) return true;
    return a.experts == 0 && stacks_of(*a.composition) == 1;
  }
  Bytes capacity() const { return resolved_.cluster.machine.gpu.memory_bytes; }
  int shards() const { return resolved_.step.mesh.shard; }

  // Of the GPU that holds most.
  Bytes peak(std::int64_t layers) {
    set_layers(layers);
    Bytes most = 0;
    for (const RoleMemory& role : memory_of_roles(resolved_, build_schedule(resolved_.step))) {
      most = std::max(most, role.peak);
    }
    return most;
  }
  std::int64_t parameters(std::int64_t layers) {
    set_layers(layers);
    return resolved_.step.model.parameter_elements();
  }

 private:
  void set_layers(std::int64_t layers) {
    Model& model = resolved_.step.model;
    Architecture architecture = model.architecture;
    architecture.layers = layers;
    model = build_model(model.name, architecture);
  }

  Resolved resolved_;
};

// The most layers whose peak is within the capacity, at least 1, by false position: the peak is a
// straight line in the number of layers but for its start, so the second guess is nearly right.
std::int64_t most_that_fit(Question& question) {
  struct Tried {
    std::int64_t layers;
    Bytes peak;
  };
  const Bytes capacity = question.capacity();
  Tried good{1, question.peak(1)};
  if (good.peak > capacity) return 0;
  Tried other{8, question.peak(8)};
  std::optional<Tried> bad;
  const auto take = [&](const Tried& t) {
    if (t.peak > capacity) {
      bad = t;
    } else {
      good = t;
    }
  };
  const Tried start = good;
  take(other);
  while (!bad || bad->layers - good.layers > 1) {
    const Tried& far = bad ? *bad : other;
    const Tried& near = bad ? good : start;
    const double slope =
        static_cast<double>(far.peak - near.peak) / static_cast<double>(far.layers - near.layers);
    const double guess = slope <= 0 ? static_cast<double>(most_layers)
                                    : static_cast<double>(near.layers) +
                                          static_cast<double>(capacity - near.peak) / slope;
    std::int64_t next =
        guess >= static_cast<double>(most_layers) ? most_layers : static_cast<std::int64_t>(guess);
    next = std::max(next, good.layers + 1);
    if (bad) next = std::min(next, bad->layers - 1);
    if (next > most_layers) return most_layers;
    other = {next, question.peak(next)};
    take(other);
    if (!bad && next == most_layers) return most_layers;
    if (!bad) {  // the guess was right from below: is one more too many?
      other = {next + 1, question.peak(next + 1)};
      take(other);
    }
  }
  return good.layers;
}

LargestModel largest(const Scenario& scenario, const std::string& strategy) {
  Question question(with_strategy(scenario, strategy));
  LargestModel answer;
  answer.strategy = strategy;
  answer.by_states_alone =
      static_cast<double>(question.capacity()) / textbook_bytes * question.shards();
  answer.layers = most_that_fit(question);
  answer.beyond = answer.layers == most_layers;
  if (answer.layers > 0) answer.parameters = question.parameters(answer.layers);
  return answer;
}

}  // namespace

std::vector<LargestModel> largest_models(const Scenario& scenario, int gpus, int nodes) {
  std::vector<LargestModel> list;
  if (!Question(with_strategy(scenario, "ddp")).is_stack()) return list;
  list.push_back(largest(scenario, "ddp"));
  if (gpus == 1) return list;
  list.push_back(largest(scenario, "shard_grad_op"));
  list.push_back(largest(scenario, "full_shard"));
  if (nodes > 1) list.push_back(largest(scenario, "hybrid_shard"));
  return list;
}

}  // namespace stepcast
