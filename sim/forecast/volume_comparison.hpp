#pragma once
// The bytes a GPU sends in a step under every strategy: the textbook's 2Ψ or 3Ψ of 16 bit, and what
// the framework really sends, with the reason for each difference; within the node and between
// nodes.
//
//   stepcast volume --params 7e9 --gpus 8
//   ddp     2Ψ   24.5 GB   49     fp32 gradients
//   zero2   2Ψ   24.5      36.75  the bucket is all-reduced, not reduce-scattered
//
// Ring counting (sim/collectives/volume.hpp): 2Ψ of 16 bit over N ranks are 2 (N-1)/N 2Ψ bytes. A
// ring over n nodes of g GPUs leaves each node once, so 1/g of what its GPUs send is between nodes.
// With a model and a machine also what the real schedule sends, padding and roots included, split
// as NCCL would route it. Tested by tests/unit/forecast/volume_comparison_test.cpp (E-18).

#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/compared.hpp"

namespace stepcast {

struct SentBytes {  // a GPU and step
  double intra = 0;
  double inter = 0;  // averaged over a node's GPUs
  double total() const { return intra + inter; }
};

struct VolumeComparisonRow {
  std::string strategy;
  std::string formula;  // of the textbook: "2Ψ"
  SentBytes textbook;   // 16 bit
  SentBytes framework;
  std::string collectives;  // of the framework: "2 all-gather 16 bit, 1 reduce-scatter fp32"
  std::string reason;
  std::optional<SentBytes> scheduled;  // with a model and a machine
  std::string not_built;               // why not; empty where there is one or none was asked
};

struct VolumeComparison {
  Compared question;
  std::vector<VolumeComparisonRow> rows;
};

// Throws InputError.
VolumeComparison volume_comparison(const Scenario& scenario);

std::string to_text(const VolumeComparison& comparison);
std::string to_json(const VolumeComparison& comparison);  // schema "stepcast.volume/1"

}  // namespace stepcast
