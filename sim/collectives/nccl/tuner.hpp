#pragma once
// NCCL's choice for one call: the algorithm and protocol of the smallest predicted time.
//
//   Tuner tuner(constants("2.28.9"), comm, search);
//   Choice c = tuner.choose(CollectiveKind::all_reduce, 1 << 20, Dtype::fp32, Reduction::sum);
//
// bytes is NCCL's nBytes: the tensor for all-reduce, broadcast and reduce; the total over the ranks
// for all-gather and reduce-scatter. nccl-tests' "size" is the same number.

#include <cstdint>
#include <optional>

#include "sim/collectives/nccl/channels.hpp"
#include "sim/collectives/nccl/model.hpp"

namespace stepcast::nccl {

struct Choice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  double time_us = 0;
  Launch launch;
};

class Tuner {
 public:
  Tuner(const Constants& constants, CommShape comm, SearchResult search);

  // Predicted time, or nothing where the pair cannot run the function.
  std::optional<double> time_us(CollectiveKind f, NcclAlgorithm a, NcclProtocol p,
                                std::int64_t bytes, Dtype dtype = Dtype::fp32) const;

  // The part of that which grows with the size: bytes / bandwidth. The pair must be able to run.
  double wire_us(CollectiveKind f, NcclAlgorithm a, NcclProtocol p, std::int64_t bytes) const;

  Choice choose(CollectiveKind f, std::int64_t bytes, Dtype dtype, Reduction reduction) const;

  const CostModel& model() const { return model_; }
  const CommShape& comm() const { return comm_; }
  const SearchResult& search() const { return search_; }
  int channels() const { return channels_; }

 private:
  const TunerRow* row_for(CollectiveKind f, std::int64_t bytes, bool nvls, bool pat) const;
  double correction(NcclAlgorithm a, NcclProtocol p, std::int64_t bytes) const;

  const Constants& constants_;
  CommShape comm_;
  SearchResult search_;
  CostModel model_;
  int channels_;
};

}  // namespace stepcast::nccl
