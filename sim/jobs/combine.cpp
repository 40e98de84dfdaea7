#include "sim/jobs/combine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "sim/forecast/resolve.hpp"
#include "sim/jobs/settle.hpp"

namespace stepcast::jobs {

namespace {

// One fact of several files: the better origin wins, equals must agree.
template <typename T>
void agree(std::optional<Fact<T>>& base, const std::optional<Fact<T>>& other) {
  if (!other) return;
  if (!base || base->source.origin < other->source.origin) {
    base = other;
  } else if (base->source.origin == other->source.origin && !(base->value == other->value)) {
    if (base->source.origin != Origin::file) return;
    throw InputError(other->source.where,
                     fmt::format("{} contradicts {}; accepted: files that agree",
                                 other->source.text, place(base->source)));
  }
}

// What a strategy is called where only FSDP1's sharding was said.
std::string strategy_of(const Scenario& s) {
  return s.strategy ? *s.strategy : s.sharding_strategy ? "fsdp1" : "";
}

// The keys of one job over those of the jobs before it.
void lay_over(Combined& all, const Job& job, bool with_strategy) {
  std::vector<const void*> theirs;
  visit_scenario(job.scenario, [&](const KeyInfo&, const auto& f) { theirs.push_back(&f); });
  std::size_t i = 0;
  visit_scenario(all.scenario, [&](const KeyInfo& key, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    const Field& other = *static_cast<const Field*>(theirs[i++]);
    if (!other) return;
    if (!with_strategy && std::string_view(key.group) == "Strategy") return;
    const Source& source = job.sources.at(key.name);
    const auto there = all.sources.find(key.name);
    if (there != all.sources.end() && field) {
      const Origin before = there->second.origin;
      if (before > source.origin) return;
      if (before == source.origin && !(*field == *other) && before == Origin::file) {
        throw InputError(source.where, fmt::format("{} contradicts {}; accepted: files that agree",
                                                   source.text, place(there->second)));
      }
      if (before == source.origin) return;
    }
    field = other;
    all.scenario.said[key.name] = source.where;
    all.sources[key.name] = source;
  });
}

// The job whose strategy holds: said beats assumed.
const Job* strategy_job(const std::vector<Job>& jobs) {
  const Job* best = nullptr;
  for (const Job& job : jobs) {
    const auto source = job.sources.find("strategy");
    if (source == job.sources.end()) continue;
    if (best == nullptr || best->sources.at("strategy").origin < source->second.origin) best = &job;
  }
  return best;
}

// Where two jobs both say a strategy, and not the same one.
void refuse_two_strategies(const std::vector<Job>& jobs, const Job* best) {
  for (const Job& job : jobs) {
    const auto source = job.sources.find("strategy");
    if (best == nullptr || source == job.sources.end() || &job == best) continue;
    const Source& mine = best->sources.at("strategy");
    if (source->second.origin != Origin::file || mine.origin != Origin::file) continue;
    if (job.scenario.strategy == best->scenario.strategy) continue;
    throw InputError(source->second.where,
                     fmt::format("{}, which is {}, contradicts {}, which is {}; accepted: files "
                                 "that agree",
                                 source->second.text, *job.scenario.strategy, place(mine),
                                 *best->scenario.strategy));
  }
}

bool said_by_flag(const Scenario& flags, const std::string& key) {
  return flags.said.count(key) > 0;
}

// GPUs of one replica need the time of a micro-batch within: what to add, once for all dimensions.
void ask_for_replica(const std::map<std::string, Fact<std::int64_t>>& degrees,
                     std::vector<Unsupported>& reasons) {
  std::int64_t gpus = 1;
  std::string words;
  for (const auto& [what, degree] : degrees) {
    gpus *= degree.value;
    words += fmt::format("{}{} {}", words.empty() ? "" : " x ", degree.value, what);
  }
  for (const auto& [what, degree] : degrees) {
    reasons.push_back(
        {degree.source.where,
         fmt::format("{} GPUs to a replica: stepcast simulates the data-parallel axis, not what "
                     "runs inside such a group; add --replica-gpus {} --replica-step-ms T, T the "
                     "forward and backward of a micro-batch in it",
                     words, gpus),
         "", false});
  }
}

// The first of what stops a forecast, and how many more there are.
void stop(const std::vector<Job>& jobs, const Facts& facts, const Scenario& flags,
          bool strategy_replaced, const CombineOptions& options, std::vector<std::string>& notes) {
  struct Reason {
    Where where;
    std::string sentence;
  };
  std::vector<Reason> reasons;
  std::vector<Unsupported> replicas;
  if (!flags.replica_step_ms) ask_for_replica(facts.degrees, replicas);
  for (const Unsupported& u : replicas) reasons.push_back({u.where, u.sentence});
  for (const Job& job : jobs) {
    for (const Unsupported& u : job.unsupported) {
      if (!u.settled_by.empty() && said_by_flag(flags, u.settled_by)) continue;
      if (u.strategy && strategy_replaced) continue;
      reasons.push_back({u.where, u.sentence});
    }
    for (const Job::Unknown& u : job.unknown) {
      std::string sentence =
          fmt::format("is not a key that stepcast knows of {}", to_string(job.kind));
      if (!u.nearest.empty()) sentence += fmt::format(" (did you mean '{}'?)", u.nearest);
      reasons.push_back({u.where, sentence});
    }
  }
  if (reasons.empty()) return;
  if (options.ignore_unsupported) {
    for (const Reason& r : reasons) {
      notes.push_back(InputError(r.where, "ignored: " + r.sentence).what());
    }
    return;
  }
  std::string more;
  for (std::size_t i = 1; i < reasons.size() && i < 6; ++i) {
    more += (i == 1 ? "; also " : ", ") + reasons[i].where.key.substr(0, 60);
  }
  if (reasons.size() > 6) more += fmt::format(" and {} more", reasons.size() - 6);
  throw InputError(reasons.front().where,
                   reasons.front().sentence + more + "; --ignore-unsupported goes on without");
}

}  // namespace

Combined combine(const std::vector<Job>& jobs, const Scenario& flags,
                 const CombineOptions& options) {
  Combined all;
  const Job* best = strategy_job(jobs);
  Facts facts;
  const std::string chosen = strategy_of(flags);
  const std::string theirs = best == nullptr ? "" : strategy_of(best->scenario);
  const bool replaced = !chosen.empty() && !theirs.empty() && chosen != theirs;
  if (!replaced) refuse_two_strategies(jobs, best);
  for (const Job& job : jobs) {
    facts.files.push_back(job.file);
    all.notes.push_back(
        fmt::format("{} is read as {} ({})", job.file, to_string(job.kind), job.syntax));
  }
  for (const Job& job : jobs) {
    for (const auto& [what, degree] : job.degrees) {
      std::optional<Fact<std::int64_t>> known;
      if (facts.degrees.count(what) > 0) known = facts.degrees.at(what);
      agree(known, std::optional<Fact<std::int64_t>>(degree));
      facts.degrees[what] = *known;
    }
    facts.gpus_are_replicas = facts.gpus_are_replicas || job.gpus_are_replicas;
  }
  stop(jobs, facts, flags, replaced, options, all.notes);
  if (!flags.replica_step_ms) facts.degrees.clear();  // ignored on purpose

  for (const Job& job : jobs) {
    // Settings of a strategy that another file or a flag overrules go with it.
    const bool own = job.scenario.strategy.has_value();
    lay_over(all, job, !replaced && (!own || strategy_of(job.scenario) == theirs));
    agree(facts.micro_batch, job.micro_batch);
    agree(facts.accumulation, job.accumulation);
    agree(facts.global_batch, job.global_batch);
    agree(facts.model, job.model);
    if (!flags.precision) agree(facts.dtype, job.dtype);
    agree(facts.pure_16, job.pure_16);
    if (!replaced && &job == best) {
      facts.world = job.world;
      facts.replicas = job.replicas;
    }
    if (!replaced) facts.autos.insert(job.autos.begin(), job.autos.end());
    facts.sizes.insert(job.sizes.begin(), job.sizes.end());
    if (job.global_batch) facts.batch_words = job.batch_words;
    facts.through_deepspeed = facts.through_deepspeed || (job.through_deepspeed && !replaced);
    facts.checkpoint_outside_unit =
        facts.checkpoint_outside_unit || job.gradient_checkpointing_outside_unit;
    for (const Unsupported& u : job.approximate) {
      if (!u.settled_by.empty() && said_by_flag(flags, u.settled_by)) continue;
      if (u.strategy && replaced) continue;
      all.notes.push_back(InputError(u.where, u.sentence).what());
    }
    for (const std::string& key : job.irrelevant) all.irrelevant.push_back(job.file + ": " + key);
    all.asked.insert(all.asked.end(), job.asked.begin(), job.asked.end());
  }
  if (replaced) {
    all.notes.push_back(
        fmt::format("strategy {} is said beside the files: their settings of {} are "
                    "left out",
                    chosen, theirs));
    // A recipe of the old strategy may not exist under the new one.
    all.scenario.precision.reset();
    all.sources.erase("precision");
  }
  // GPUs that flags count are the whole of it: the files' nodes and GPUs a node were of their
  // world.
  if (flags.nodes || flags.gpus) {
    for (const char* key : {"nodes", "gpus", "gpus_per_node"}) {
      all.sources.erase(key);
      all.scenario.said.erase(key);
    }
    all.scenario.nodes.reset();
    all.scenario.gpus.reset();
    all.scenario.gpus_per_node.reset();
  }
  all.scenario = merged(std::move(all.scenario), flags);
  for (const auto& [key, where] : flags.said) {
    all.sources[key] = {Origin::flag, where,
                        where.line > 0 ? fmt::format("{}:{}", where.file, where.line) : where.file};
  }
  settle(facts, flags, all);

  // Questions that have found an answer.
  const auto answered = [&](const Asked& asked) { return all.sources.count(asked.key) > 0; };
  all.asked.erase(std::remove_if(all.asked.begin(), all.asked.end(), answered), all.asked.end());
  if (!options.ask) {
    std::string sentence;
    const Asked* first = nullptr;
    for (const Asked& asked : all.asked) {
      if (!asked.required) continue;
      if (first == nullptr) {
        first = &asked;
        sentence = asked.sentence;
      } else {
        sentence += std::string("; ") + InputError(asked.where, asked.sentence).what();
      }
    }
    if (first != nullptr) throw InputError(first->where, sentence);
    for (const Asked& asked : all.asked) {
      if (asked.key != "cluster") all.notes.push_back(asked.key + ": " + asked.sentence);
    }
  }
  return all;
}

}  // namespace stepcast::jobs
