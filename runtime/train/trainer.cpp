#include "runtime/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "runtime/numbers.hpp"
#include "runtime/train/verbs.hpp"

namespace stepcast::runtime {

Trainer::~Trainer() = default;

Trainer::Trainer(const Schedule& schedule, const MlpShape& shape, TrainingData data)
    : schedule_(schedule),
      takers_(ranks_at_work(schedule)),
      shape_(shape),
      data_(std::move(data)),
      loss_scale_(data_.loss_scale > 0 ? data_.loss_scale : loss_scale_of(schedule)) {
  const auto world = static_cast<std::size_t>(schedule.mesh.world_size());
  STEPCAST_ASSERT(data_.of_rank.size() == world, "samples for every rank");
  ranks_.resize(world);
  static const Name construction("construction");
  before_ = schedule.roles.front().steps.front().name == construction ? 1 : 0;
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const Role& role = schedule.roles[r];
    std::vector<std::vector<std::string>> names;
    for (const StepProgram& program : role.steps) names.push_back(op_names(schedule, program));
    names_.push_back(std::move(names));
    const int last = static_cast<int>(role.steps.size()) - 1;
    for (int i = 0; i < role.rank_count; ++i) {
      const int rank = static_cast<int>(role.rank(i));
      RankState& state = ranks_[static_cast<std::size_t>(rank)];
      Planner planner(schedule, shape, rank, static_cast<int>(r));
      state.parameters = planner.parameters();
      for (int s = 0; s < executed_steps(); ++s) {
        state.steps.push_back(planner.next_step(std::min(s, last)));
      }
      state.masters = planner.masters();
      state.loss.resize(static_cast<std::size_t>(data_.steps), 0);
    }
  }
}

void Trainer::start(int rank, std::byte* const* memory) {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const Tensors initial = initial_parameters(shape_, data_.seed);
  const auto put = [&](BufferIndex buffer, const std::vector<Run>& runs) {
    const Dtype dtype = schedule_.buffers[static_cast<std::size_t>(buffer)].dtype;
    for (const Run& run : runs) {
      const double* from = initial[static_cast<std::size_t>(run.tensor)].data() + run.first;
      write(memory[buffer], dtype, run.at, from, run.count);
    }
  };
  for (const auto& [buffer, runs] : state.parameters) put(buffer, runs);
  for (std::size_t b = 0; b < schedule_.buffers.size(); ++b) {
    const Buffer& buffer = schedule_.buffers[b];
    if (buffer.kind != BufferKind::optimizer_state || memory[b] == nullptr) continue;
    std::memset(memory[b], 0, static_cast<std::size_t>(buffer.bytes));
  }
  for (const MasterCopy& master : state.masters) put(master.state, master.runs);
}

void Trainer::end(int rank, std::byte* const* memory) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  state.final_parameters.resize(static_cast<std::size_t>(shape_.tensors()));
  for (int t = 0; t < shape_.tensors(); ++t) {
    state.final_parameters[static_cast<std::size_t>(t)].assign(
        static_cast<std::size_t>(shape_.elements(t)), std::numeric_limits<double>::quiet_NaN());
  }
  for (const auto& [buffer, runs] : state.parameters) {
    const Dtype dtype = schedule_.buffers[static_cast<std::size_t>(buffer)].dtype;
    for (const Run& run : runs) {
      double* to = state.final_parameters[static_cast<std::size_t>(run.tensor)].data() + run.first;
      read(to, memory[buffer], dtype, run.at, run.count, "the end of the run");
      for (std::int64_t i = 0; i < run.count; ++i) {
        if (std::isnan(to[i])) to[i] = std::numeric_limits<double>::infinity();  // not "absent"
      }
    }
  }
}

std::vector<double> Trainer::result(int rank) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  std::vector<double> all = state.loss;
  for (const auto& tensor : state.final_parameters) {
    all.insert(all.end(), tensor.begin(), tensor.end());
  }
  return all;
}

void Trainer::adopt(int rank, const std::vector<double>& result) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  auto at = result.begin();
  const auto next = [&](std::int64_t count) {
    STEPCAST_ASSERT(result.end() - at >= count, "a result has losses and every tensor");
    const std::vector<double> values(at, at + count);
    at += count;
    return values;
  };
  state.loss = next(data_.steps);
  state.final_parameters.clear();
  for (int t = 0; t < shape_.tensors(); ++t) {
    state.final_parameters.push_back(next(shape_.elements(t)));
  }
}

const Tensors& Trainer::parameters(int rank) const {
  return ranks_[static_cast<std::size_t>(rank)].final_parameters;
}

std::vector<double> Trainer::losses() const {
  std::vector<double> mean(static_cast<std::size_t>(data_.steps), 0);
  for (const RankState& state : ranks_) {
    for (std::size_t s = 0; s < mean.size(); ++s) {
      mean[s] += state.loss[s] / takers_ / data_.micro_batches;
    }
  }
  return mean;
}

const std::vector<double>& Trainer::norms(int rank) const {
  return ranks_[static_cast<std::size_t>(rank)].norms;
}

const OpPlan& Trainer::plan_of(const OpContext& c) const {
  return ranks_[static_cast<std::size_t>(c.rank)]
      .steps[static_cast<std::size_t>(c.step)]
      ->ops[static_cast<std::size_t>(c.index)];
}

std::string Trainer::name_of(const OpContext& c) const {
  return names_[static_cast<std::size_t>(c.role)][static_cast<std::size_t>(c.program)]
               [static_cast<std::size_t>(c.index)];
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i])) continue;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
  }
  for (const double x : b) norm += x * x;
  return std::sqrt(difference) / std::sqrt(norm);
}

}  // namespace stepcast::runtime
