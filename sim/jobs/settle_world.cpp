// How many GPUs there are, which of them are one replica, and how the batch is divided among them.
//
// Tested by tests/unit/jobs/combine_test.cpp.

#include <fmt/format.h>

#include "sim/forecast/resolve.hpp"
#include "sim/jobs/settle_parts.hpp"

namespace stepcast::jobs {

namespace {

std::optional<std::int64_t> world_of(const Scenario& s) {
  if (s.cluster) return resolve_cluster(s).world_size;
  if (s.gpus) return *s.gpus;
  if (s.nodes && s.gpus_per_node) return *s.nodes * *s.gpus_per_node;
  return std::nullopt;
}

[[noreturn]] void contradiction(const Facts& facts, std::int64_t micro, std::int64_t accumulation,
                                std::int64_t world) {
  throw InputError(facts.global_batch->source.where,
                   fmt::format("{} is {}, but {} a GPU x {} of accumulation x {} GPUs makes {}; "
                               "accepted: numbers that agree",
                               facts.batch_words, facts.global_batch->value, micro, accumulation,
                               world, micro * accumulation * world));
}

}  // namespace

// Tensor-, pipeline- and context-parallel degrees as a replica whose time was given. Meshes of all
// these frameworks have tensor and then context parallelism innermost and pipelines outermost, so
// tp x cp GPUs are neighbours in rank order. Returns the GPUs of a replica.
std::int64_t settle_replica(const Facts& facts, const Scenario& flags, Combined& all) {
  if (facts.degrees.empty() || flags.replica_gpus) return flags.replica_gpus.value_or(1);
  double product = 1;
  std::int64_t gpus = 1, inner = 1;
  std::string words;
  const Source& first = facts.degrees.begin()->second.source;
  for (const auto& [what, degree] : facts.degrees) {
    product *= static_cast<double>(degree.value);
    if (product > 1e9) {
      throw InputError(degree.source.where,
                       "these degrees make more than 1e9 GPUs a replica; accepted: fewer");
    }
    gpus *= degree.value;
    if (what != "pipeline-parallel") inner *= degree.value;
    words += (words.empty() ? "" : " x ") + degree.source.text;
    if (what == "context-parallel") {
      all.notes.push_back(
          InputError(degree.source.where,
                     "GPUs of a context-parallel group hold whole tensors, but are forecast as "
                     "holding a part each: memory and bytes sent are lower bounds")
              .what());
    }
  }
  set(all, "replica_gpus", &Scenario::replica_gpus, gpus,
      Source{Origin::derived, first.where, words});
  if (inner != gpus && !flags.replica_inner) {
    set(all, "replica_inner", &Scenario::replica_inner, inner,
        Source{Origin::derived, first.where, "neighbours in rank order: pipelines lie outside"});
  }
  all.notes.push_back(
      fmt::format("{}: {} GPUs are a replica, as --replica-gpus says it", place(first), gpus));
  return gpus;
}

std::optional<std::int64_t> settle_world(const Facts& facts, const Scenario& flags,
                                         std::int64_t replica, Combined& all) {
  const bool counted = flags.nodes || flags.gpus;
  if (facts.world && !counted && !all.scenario.gpus && !all.scenario.nodes) {
    set(all, "gpus", &Scenario::gpus, facts.world->value * replica, facts.world->source);
  } else if (facts.gpus_are_replicas && !counted && all.scenario.gpus) {
    all.scenario.gpus = *all.scenario.gpus * replica;
  }
  std::optional<std::int64_t> world = world_of(all.scenario);
  if (world && replica > 1) {
    if (*world % replica != 0) {
      throw InputError(flags.replica_gpus ? all.scenario.where("replica_gpus")
                                          : facts.degrees.begin()->second.source.where,
                       fmt::format("replicas of {} GPUs do not divide {} GPUs; accepted: a "
                                   "multiple of {}",
                                   replica, *world, replica));
    }
    *world /= replica;  // from here on what has a batch of its own
  }
  if (facts.world && world && facts.world->value != *world) {
    const char* key = all.scenario.nodes ? "nodes" : "gpus";
    throw InputError(facts.world->source.where,
                     fmt::format("{} makes {} GPUs, and {} makes {}; accepted: the same number",
                                 facts.world->source.text, facts.world->value,
                                 all.sources.count(key) > 0 ? place(all.sources[key])
                                                            : std::string("the cluster"),
                                 *world));
  }
  if (!facts.replicas || all.scenario.shard_group ||
      all.scenario.strategy != std::optional<std::string>("hsdp")) {
    return world;
  }
  if (!world) {
    all.asked.push_back(
        {"shard_group", facts.replicas->source.where,
         fmt::format("the shard group is the GPUs divided by {}; give --cluster and "
                     "--nodes or --gpus",
                     facts.replicas->value),
         false});
  } else if (*world % facts.replicas->value != 0) {
    throw InputError(facts.replicas->source.where,
                     fmt::format("{} replicas do not divide {} GPUs; accepted: a divisor",
                                 facts.replicas->value, *world));
  } else {
    set(all, "shard_group", &Scenario::shard_group, *world / facts.replicas->value,
        Source{Origin::derived, facts.replicas->source.where,
               fmt::format("{} GPUs / {}", *world, facts.replicas->source.text)});
  }
  return world;
}

void settle_batch(const Facts& facts, const Scenario& flags, std::optional<std::int64_t> world,
                  Combined& all) {
  const auto source = [&](const std::string& text) {
    return Source{Origin::derived, facts.global_batch->source.where, text};
  };
  std::optional<std::int64_t> micro = flags.micro_batch, accumulation = flags.accumulation;
  if (!micro && facts.micro_batch) {
    micro = facts.micro_batch->value;
    set(all, "micro_batch", &Scenario::micro_batch, *micro, facts.micro_batch->source);
  }
  const bool said = facts.accumulation && facts.accumulation->source.origin == Origin::file;
  if (!accumulation && facts.accumulation && (said || !facts.global_batch)) {
    accumulation = facts.accumulation->value;
    set(all, "accumulation", &Scenario::accumulation, *accumulation, facts.accumulation->source);
  }
  if (facts.global_batch && !world) {
    if (micro && accumulation) return;
    const char* key = micro ? "accumulation" : "micro_batch";
    all.asked.push_back(
        {key, facts.global_batch->source.where,
         fmt::format("{} of {} is divided among GPUs; give --cluster and --nodes or "
                     "--gpus",
                     facts.batch_words, facts.global_batch->value),
         !micro});
    return;
  }
  if (facts.global_batch) {
    const std::int64_t global = facts.global_batch->value;
    const double product = static_cast<double>(micro.value_or(1)) *
                           static_cast<double>(accumulation.value_or(1)) *
                           static_cast<double>(*world);
    if (product > 9e15) contradiction(facts, micro.value_or(1), 1, *world);
    const std::int64_t rest = micro.value_or(1) * accumulation.value_or(1) * *world;
    const bool by_flags = flags.micro_batch && flags.accumulation;
    if (micro && accumulation) {
      // Flags that say both say a new batch; the file's is no longer meant.
      if (rest != global && !by_flags) contradiction(facts, *micro, *accumulation, *world);
    } else if (micro) {
      if (global % rest != 0) contradiction(facts, *micro, global / rest, *world);
      set(all, "accumulation", &Scenario::accumulation, global / rest,
          source(fmt::format("{} of {} / ({} a GPU x {} GPUs)", facts.batch_words, global, *micro,
                             *world)));
    } else {
      if (global % rest != 0) contradiction(facts, global / rest, accumulation.value_or(1), *world);
      set(all, "micro_batch", &Scenario::micro_batch, global / rest,
          source(fmt::format("{} of {} / ({} of accumulation x {} GPUs)", facts.batch_words, global,
                             accumulation.value_or(1), *world)));
      if (!accumulation) {
        set(all, "accumulation", &Scenario::accumulation, 1,
            source(fmt::format("{} in one micro-batch", facts.batch_words)));
      }
    }
    return;
  }
}

}  // namespace stepcast::jobs
