#include "sim/plan/checkpoints.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr double giga = 1e9;

}  // namespace

CheckpointCost checkpoint_cost(const CheckpointSetup& setup, CheckpointWriter writer,
                               bool background) {
  STEPCAST_ASSERT(setup.nodes >= 1 && setup.gpus >= setup.nodes, "GPUs sit on nodes");
  const auto bytes = static_cast<double>(setup.bytes);
  CheckpointCost cost;
  const double all = std::min(setup.storage_gbps, setup.node_gbps * setup.nodes) * giga;
  Seconds write = 0;
  if (writer == CheckpointWriter::sharded) {
    cost.stall = bytes / setup.gpus / (setup.copy_gbps * giga);
    cost.host_bytes = bytes / setup.nodes;
    write = bytes / all;
  } else {
    // Rank 0 receives what others hold and passes all of it to its host, tensor by tensor: the
    // slower of the two sets the pace.
    const double pace =
        setup.gather_gbps > 0 ? std::min(setup.gather_gbps, setup.copy_gbps) : setup.copy_gbps;
    cost.stall = bytes / (pace * giga);
    cost.host_bytes = bytes;
    write = bytes / (std::min(setup.storage_gbps, setup.node_gbps) * giga);
  }
  cost.stall += setup.begin;
  (background ? cost.lag : cost.stall) += write;
  cost.read = bytes / all;
  cost.fits_host = setup.host_memory_bytes <= 0 || cost.host_bytes <= setup.host_memory_bytes;
  return cost;
}

double goodput(Seconds interval, const CheckpointCost& cost, const FailureRates& rates) {
  STEPCAST_ASSERT(interval > 0, "work between checkpoints takes time");
  const Seconds period = interval + cost.stall;
  if (rates.mtbf <= 0) return interval / period;
  const Seconds m = rates.mtbf;
  return interval * std::exp(-(cost.lag + rates.restart) / m) / (m * std::expm1(period / m));
}

CheckpointPlan best_interval(const CheckpointCost& cost, const FailureRates& rates) {
  CheckpointPlan plan;
  if (rates.mtbf <= 0) return plan;
  const Seconds m = rates.mtbf;
  plan.young = std::sqrt(2 * cost.stall * m);
  const double x = cost.stall / (2 * m);
  plan.daly = x < 1 ? plan.young * (1 + std::sqrt(x) / 3 + x / 9) - cost.stall : m;
  // The goodput has one maximum over the interval: interval / (exp((interval + stall) / M) - 1).
  // Its derivative is zero where u = interval / M solves 1 - u = exp(-u - stall / M).
  double low = 0, high = 1;
  for (int i = 0; i < 200; ++i) {
    const double u = (low + high) / 2;
    (1 - u > std::exp(-u - cost.stall / m) ? low : high) = u;
  }
  plan.interval = std::max({low * m, cost.lag, 1e-3});
  plan.goodput = goodput(plan.interval, cost, rates);
  return plan;
}

std::string_view to_string(CheckpointWriter writer) {
  return writer == CheckpointWriter::sharded ? "sharded" : "gathered";
}

}  // namespace stepcast
