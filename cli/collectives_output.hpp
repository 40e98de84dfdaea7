#pragma once
// The answer of `stepcast collectives`, as text and as JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/algorithms.hpp"
#include "sim/collectives/collective_cost.hpp"

namespace stepcast::cli {

// One way of NCCL's, played out message by message.
struct PlayedOut {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  int channels = 0;
  std::int64_t messages = 0;
  Seconds seconds = 0;
  Seconds closed_form = 0;
};

struct SideBySide {
  std::string op;
  Bytes bytes = 0;  // the tensor; gathered; unreduced
  int ranks = 0;
  std::string machine;  // empty: no cluster, so no times
  int nodes = 1;
  StepRates rates;
  std::vector<AlgorithmCost> algorithms;
  std::optional<CollectiveCost> nccl;  // with a cluster
  std::vector<PlayedOut> by_messages;  // where asked for
};

std::string collective_size_text(double bytes);  // "1.074 GB"

std::string to_text(const SideBySide& answer);
std::string to_json(const SideBySide& answer);  // schema "stepcast.collectives/1"

}  // namespace stepcast::cli
