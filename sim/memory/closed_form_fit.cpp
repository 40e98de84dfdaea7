// The smallest change that fits, by formula. Example: 70e9 parameters fully sharded on 8 GPUs of
// 80 GB need 16 * 70e9 / 8 = 140 GB; at most 80 GB needs at least 14 GPUs, which in nodes of eight
// are 16, and then 70 GB each.

#include <fmt/format.h>

#include "base/error.hpp"
#include "sim/memory/closed_form.hpp"

namespace stepcast {
namespace {

std::string gigabytes(Bytes bytes) {
  return fmt::format("{:.6g} GB", static_cast<double>(bytes) / 1e9);
}

std::int64_t shards_of(const FitQuestion& question) {
  return question.shard_group > 0 ? question.shard_group : question.gpus;
}

Bytes needed_with(const FitQuestion& question, Partition partition, std::int64_t shards) {
  return question.beside +
         persistent_state(question.parameters, partition, shards, question.recipe).total();
}

}  // namespace

std::optional<std::int64_t> fewest_shards(std::int64_t parameters, Partition partition,
                                          const StateRecipe& recipe, Bytes room) {
  // With everything whole, and per element of a shard: whole + cut * ceil(parameters / n) <= room.
  const StateBytes one = persistent_state(parameters, partition, 1, recipe);
  Bytes cut = 0;
  Bytes whole = one.total();
  const auto move = [&](Partition from, Bytes an_element) {
    if (partition < from) return;
    cut += an_element;
    whole -= an_element * parameters;
  };
  move(Partition::optimizer, recipe.optimizer);
  move(Partition::optimizer_and_gradients, recipe.gradient);
  move(Partition::everything, recipe.parameter);
  if (one.total() <= room) return 1;
  if (cut == 0 || room - whole < cut) return std::nullopt;
  const std::int64_t largest_shard = (room - whole) / cut;
  return ceil_div(parameters, largest_shard);
}

FitAnswer smallest_change_that_fits(const FitQuestion& question) {
  if (question.gpus < 1 || question.gpus_per_node < 1 || question.capacity < 1 ||
      question.beside < 0) {
    throw InputError("GPUs, GPUs a node and the capacity must be at least 1, the rest at least 0");
  }
  const std::int64_t shards = shards_of(question);
  if (shards < 1 || question.gpus % shards != 0) {
    throw InputError(
        {{}, 0, "shard group"},
        fmt::format("{} is not accepted: it must divide {} GPUs", shards, question.gpus));
  }
  FitAnswer answer;
  answer.needed = needed_with(question, question.partition, shards);
  answer.fits = answer.needed <= question.capacity;
  const Bytes room = question.capacity - question.beside;
  answer.fewest_shards =
      fewest_shards(question.parameters, Partition::everything, question.recipe, room);
  const auto change = [&](Partition partition, std::int64_t gpus, std::int64_t group) {
    answer.partition = partition;
    answer.gpus = gpus;
    answer.shard_group = group;
    answer.needed_then = needed_with(question, partition, group);
  };
  if (answer.fits) {
    change(question.partition, question.gpus, shards);
    answer.sentence =
        fmt::format("fits: {} of {} a GPU", gigabytes(answer.needed), gigabytes(question.capacity));
    return answer;
  }
  const std::string does_not =
      fmt::format("does not fit: {} needs {} of {} a GPU", to_string(question.partition),
                  gigabytes(answer.needed), gigabytes(question.capacity));
  for (int p = static_cast<int>(question.partition) + 1;
       p <= static_cast<int>(Partition::everything); ++p) {
    const auto partition = static_cast<Partition>(p);
    if (needed_with(question, partition, shards) > question.capacity) continue;
    change(partition, question.gpus, shards);
    answer.sentence = fmt::format("{}; {} it takes {}", does_not, to_string(partition),
                                  gigabytes(answer.needed_then));
    return answer;
  }
  if (!answer.fewest_shards) {
    answer.sentence = fmt::format(
        "{}; {} a GPU beside the states leave no room, whatever the "
        "number of GPUs",
        does_not, gigabytes(question.beside));
    return answer;
  }
  for (std::int64_t group = shards + 1; group <= question.gpus; ++group) {
    if (question.gpus % group != 0 || group < *answer.fewest_shards) continue;
    change(Partition::everything, question.gpus, group);
    answer.sentence =
        fmt::format("{}; {} over groups of {} GPUs it takes {}", does_not,
                    to_string(Partition::everything), group, gigabytes(answer.needed_then));
    return answer;
  }
  const std::int64_t gpus = round_up(*answer.fewest_shards, question.gpus_per_node);
  change(Partition::everything, gpus, gpus);
  answer.sentence =
      fmt::format("{}; {} it needs at least {} GPUs: {} ({} of {}), {} each", does_not,
                  to_string(Partition::everything), *answer.fewest_shards, gpus,
                  fmt::format("{} node{}", gpus / question.gpus_per_node,
                              gpus == question.gpus_per_node ? "" : "s"),
                  question.gpus_per_node, gigabytes(answer.needed_then));
  return answer;
}

}  // namespace stepcast
