#include "sim/explain/changes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {
namespace {

// Gradients that are reduced in fewer bits than now.
bool reduces_coarser(const Report& now, const Report& then) {
  const auto bytes = [](const Report& r) {
    return bytes_per_element(precision_recipe(r.precision).reduce);
  };
  return bytes(then) < bytes(now);
}

class Ideas {
 public:
  Ideas(const Scenario& s, const Report& now) : s_(s), now_(now) {}

  std::vector<Change> all() {
    strategies();
    if (now_.strategy == "ddp") ddp();
    if (now_.strategy == "fsdp1") fsdp1();
    if (now_.strategy == "fsdp2" || now_.strategy == "hsdp") fsdp2();
    if (now_.strategy.starts_with("zero")) zero();
    allocator();
    batch();
    software();
    return std::move(list_);
  }

 private:
  // `set` changes a copy of the scenario.
  template <typename Set>
  Change& add(const std::string& words, const std::string& flags, Set&& set) {
    Change& change = list_.emplace_back();
    change.words = words;
    change.flags = flags;
    change.scenario = s_;
    set(change.scenario);
    return change;
  }

  void strategy(const char* name, const char* of, bool keep_gathered = false) {
    add(keep_gathered ? fmt::format("strategy {} without resharding after forward", of)
                      : fmt::format("strategy {}", of),
        keep_gathered ? fmt::format("--strategy {} --reshard-after-forward false", of)
                      : fmt::format("--strategy {}", of),
        [&](Scenario& c) {
          c = without_strategy(s_);
          c.strategy = name;
          if (keep_gathered) c.reshard_after_forward = YesNoOrCount{false, 0};
          c.precision.reset();  // the new strategy's own
        });
  }

  void strategies() {
    for (const char* name : {"ddp", "zero1", "zero2", "fsdp2", "hsdp"}) {
      // Within one node, or with one GPU a node, HSDP is FSDP2 or DDP by another name.
      const bool groups = now_.nodes > 1 && now_.gpus_per_node > 1;
      if (now_.strategy == name || (name == std::string("hsdp") && !groups)) continue;
      strategy(name, name);
    }
    if (now_.strategy != "fsdp2" && now_.strategy != "hsdp") strategy("fsdp2", "fsdp2", true);
    if (s_.accumulation_sync.value_or("last") == "every" && now_.accumulation > 1) {
      add("gradients reduced in the last micro-batch only", "--accumulation-sync last",
          [](Scenario& c) { c.accumulation_sync = "last"; });
      if (now_.strategy == "hsdp") {
        add("all-reduces across groups in the last micro-batch only",
            "--accumulation-sync reduce_scatter_every",
            [](Scenario& c) { c.accumulation_sync = "reduce_scatter_every"; });
      }
    }
  }

  void ddp() {
    const double cap = s_.bucket_cap_mb.value_or(25);
    if (!s_.bucket_cap_mb_list) {
      for (const double times : {0.25, 4.0, 16.0}) {
        const double mib = cap * times;
        add(fmt::format("buckets of {:g} MiB instead of {:g}", mib, cap),
            fmt::format("--bucket-cap-mb {:g}", mib), [&](Scenario& c) { c.bucket_cap_mb = mib; });
      }
    }
    if (!s_.gradient_as_bucket_view.value_or(false)) {
      add("gradients as views of buckets", "--gradient-as-bucket-view true",
          [](Scenario& c) { c.gradient_as_bucket_view = true; });
    }
    if (!s_.comm_hook) {
      add("gradients compressed to bf16", "--comm-hook bf16_compress", [](Scenario& c) {
        c.comm_hook = "bf16_compress";
      }).changes_arithmetic = true;
    }
    if (s_.find_unused_parameters.value_or(false)) {
      add("no search for unused parameters", "--find-unused-parameters false",
          [](Scenario& c) { c.find_unused_parameters = false; });
    }
  }

  void fsdp1() {
    const std::string sharding = s_.sharding_strategy.value_or("FULL_SHARD");
    for (const char* other : {"FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD"}) {
      if (sharding == other || (other == std::string("HYBRID_SHARD") && now_.nodes == 1)) continue;
      add(fmt::format("sharding strategy {}", other), fmt::format("--sharding-strategy {}", other),
          [&](Scenario& c) { c.sharding_strategy = other; });
    }
    if (s_.backward_prefetch.value_or("pre") != "pre") {
      add("backward prefetch before the gradients", "--backward-prefetch pre",
          [](Scenario& c) { c.backward_prefetch = "pre"; });
    }
    if (!s_.forward_prefetch.value_or(false)) {
      add("forward prefetch", "--forward-prefetch true",
          [](Scenario& c) { c.forward_prefetch = true; });
    }
    if (s_.limit_all_gathers.value_or(true)) {
      add("no limit on gathers in flight", "--limit-all-gathers false",
          [](Scenario& c) { c.limit_all_gathers = false; });
    }
  }

  void fsdp2() {
    const bool reshards = !s_.reshard_after_forward || s_.reshard_after_forward->yes;
    if (reshards) {
      add("parameters kept from forward to backward", "--reshard-after-forward false",
          [](Scenario& c) {
            c.reshard_after_forward = YesNoOrCount{false, 0};
          });
    }
    for (const std::int64_t units : {1, 2}) {
      if (s_.forward_prefetch_units.value_or(0) >= units) continue;
      add(fmt::format("{} unit{} gathered ahead in forward", units, units == 1 ? "" : "s"),
          fmt::format("--forward-prefetch-units {}", units),
          [&](Scenario& c) { c.forward_prefetch_units = units; });
    }
    if (s_.backward_prefetch_units.value_or(1) < 2) {
      add("2 units gathered ahead in backward", "--backward-prefetch-units 2",
          [](Scenario& c) { c.backward_prefetch_units = 2; });
    }
  }

  void zero() {
    if (now_.strategy == "zero3") {
      if (!s_.leaf_layers.value_or(false)) {
        add("each layer fetched at once (leaf modules)", "--leaf-layers true",
            [](Scenario& c) { c.leaf_layers = true; });
      }
      add("parameters below 1e6 elements stay gathered",
          "--stage3-param-persistence-threshold 1000000",
          [](Scenario& c) { c.stage3_param_persistence_threshold = 1'000'000; });
      if (s_.stage3_max_reuse_distance.value_or(1) == 0) {
        add("parameters that are used again soon stay gathered",
            "--stage3-max-reuse-distance 1000000000",
            [](Scenario& c) { c.stage3_max_reuse_distance = 1'000'000'000; });
      }
      add("four times the prefetch bucket", "--stage3-prefetch-bucket-size 200000000",
          [](Scenario& c) { c.stage3_prefetch_bucket_size = 200'000'000; });
      return;
    }
    if (!s_.overlap_comm.value_or(false)) {
      add("reductions beside backward", "--overlap-comm true",
          [](Scenario& c) { c.overlap_comm = true; });
    }
    add("reduce buckets of 5e7 elements", "--reduce-bucket-size 50000000",
        [](Scenario& c) { c.reduce_bucket_size = 50'000'000; });
  }

  // Where the device is so full that the allocator gives its cache back.
  void allocator() {
    const auto retries = [](const RoleMemory& role) {
      return role.reserved && role.reserved->retries > 0;
    };
    if (s_.expandable_segments.value_or(false)) return;
    if (std::none_of(now_.memory.begin(), now_.memory.end(), retries)) return;
    add("expandable segments, which do not break up", "--expandable-segments true",
        [](Scenario& c) { c.expandable_segments = true; });
  }

  void batch() {
    const std::string level = s_.checkpointing.value_or("none");
    for (const std::string& less : levels_of_model(s_, {"none", "selective"})) {
      if (level == "none" || level == less) continue;
      add(fmt::format("checkpointing {}", less), fmt::format("--checkpointing {}", less),
          [&](Scenario& c) { c.checkpointing = less; });
    }
    const std::int64_t b = now_.micro_batch;
    if (now_.accumulation % 2 == 0) {
      add(fmt::format("micro-batch {} and half the accumulation", 2 * b),
          fmt::format("--micro-batch {} --accumulation {}", 2 * b, now_.accumulation / 2),
          [&](Scenario& c) {
            c.micro_batch = 2 * b;
            c.accumulation = now_.accumulation / 2;
          });
    }
    add(fmt::format("micro-batch {}", 2 * b), fmt::format("--micro-batch {}", 2 * b),
        [&](Scenario& c) { c.micro_batch = 2 * b; })
        .changes_batch = true;
    if (now_.accumulation == 1 && now_.gpus > 1) {
      add("4 micro-batches a step", "--accumulation 4", [](Scenario& c) {
        c.accumulation = 4;
      }).changes_batch = true;
    }
    if (!s_.fused_attention.value_or(true)) {
      add("fused attention", "--fused-attention true",
          [](Scenario& c) { c.fused_attention = true; });
    }
  }

  void software() {
    // In fp32 nothing is turned, and torch.compile turns by itself.
    if (now_.channels_last == false && now_.precision != "fp32" &&
        s_.profile.value_or("pytorch-eager") != "pytorch-compile") {
      add("channels_last", "--channels-last true", [](Scenario& c) { c.channels_last = true; });
    }
    if (s_.profile.value_or("pytorch-eager") == "pytorch-eager") {
      add("torch.compile", "--profile pytorch-compile",
          [](Scenario& c) { c.profile = "pytorch-compile"; });
    }
    if (s_.sync_every_step.value_or(false)) {
      add("the host does not wait for each step", "--sync-every-step false",
          [](Scenario& c) { c.sync_every_step = false; });
    }
    if (s_.sync_after_forward.value_or(false)) {
      add("the host does not read the loss before backward", "--sync-after-forward false",
          [](Scenario& c) { c.sync_after_forward = false; });
    }
    if (s_.loader_workers || s_.loader_sample_ms) {
      const std::int64_t workers = std::max<std::int64_t>(1, 2 * s_.loader_workers.value_or(0));
      add(fmt::format("{} loader workers", workers), fmt::format("--loader-workers {}", workers),
          [&](Scenario& c) { c.loader_workers = workers; });
    }
  }

  const Scenario& s_;
  const Report& now_;
  std::vector<Change> list_;
};

}  // namespace

std::vector<Change> changes_of(const Scenario& scenario, const Report& now) {
  return Ideas(scenario, now).all();
}

std::vector<Change> tried(std::vector<Change> changes, const Report& now) {
  for (Change& change : changes) {
    change.scenario.perturb.reset();
    change.scenario.nccl_timeout.reset();
    try {
      const Report r = forecast(change.scenario, {.search_change = false}).report;
      change.fits = r.fits;
      change.step = r.step_time;
      change.gain = r.samples_per_second / now.samples_per_second - 1;
      change.changes_arithmetic = change.changes_arithmetic || reduces_coarser(now, r);
      change.changes_batch = change.changes_batch || r.samples_per_step != now.samples_per_step;
    } catch (const InputError&) {
      change.refused = true;
    } catch (const InfeasibleError&) {
      change.refused = true;
    }
  }
  changes.erase(
      std::remove_if(changes.begin(), changes.end(), [](const Change& c) { return c.refused; }),
      changes.end());
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.fits != b.fits ? a.fits : a.gain > b.gain;
  });
  return changes;
}

const Change* best_of(const std::vector<Change>& list, double least) {
  const auto best = std::find_if(list.begin(), list.end(), [&](const Change& c) {
    return c.fits && !c.changes_batch && !c.changes_arithmetic && c.gain >= least;
  });
  if (best != list.end()) return &*best;
  return nullptr;
}

}  // namespace stepcast
