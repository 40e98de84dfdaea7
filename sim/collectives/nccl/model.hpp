#pragma once
// NCCL's table of latency and bandwidth for every function, algorithm and protocol of one
// communicator, after all rules that switch one off. See model.cpp for the formulas.

#include "sim/collectives/nccl/constants.hpp"
#include "sim/collectives/nccl/types.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::nccl {

inline constexpr int function_count = 5;

struct Cell {
  double latency_us = 0;
  double bandwidth_gbps = 0;  // of nBytes, see tuner.hpp; 0: never chosen
};

struct CostModel {
  Cell cells[function_count][algorithm_count][protocol_count];

  const Cell& at(CollectiveKind f, NcclAlgorithm a, NcclProtocol p) const {
    return cells[static_cast<int>(f)][index_of(a)][index_of(p)];
  }
};

CostModel make_cost_model(const Constants& constants, const CommShape& comm,
                          const SearchResult& search);

// The graph an algorithm runs on.
const GraphResult& graph_of(const SearchResult& search, NcclAlgorithm a);

}  // namespace stepcast::nccl
