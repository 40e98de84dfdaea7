#pragma once
// What a parameter count alone allows to say: the memory of the states on a GPU and the bytes that
// each strategy sends, for all strategies, built or not. No time: that needs the layers (kernels,
// buckets, units) that only a model has.
//
//   stepcast simulate --params 7e9 --gpus 8
//
// Volumes count ring steps: an all-gather or reduce-scatter of S bytes sends (n-1)/n S from each of
// n ranks, an all-reduce twice that; one micro-batch a step, or `accumulation` of them.
// Tested by tests/unit/forecast/params_test.cpp (E-18, E-19).

#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"
#include "sim/memory/closed_form.hpp"

namespace stepcast {

struct VolumeRow {
  std::string strategy;          // "ddp", "zero2", "fsdp2 reshard", ...
  std::string collectives;       // "2 all-gather, 1 reduce-scatter"
  double bytes_16bit = 0;        // sent a GPU and step, gathers and reductions in 16 bit
  double bytes_fp32_reduce = 0;  // gathers in 16 bit, reductions in fp32
  double inter_node = 0;         // of bytes_16bit: between shard groups (hsdp)
};

struct ParamsTables {
  std::int64_t parameters = 0;
  std::int64_t gpus = 1;
  std::int64_t shard_group = 1;
  int accumulation = 1;
  std::vector<StateRow> memory;
  std::vector<VolumeRow> volumes;
  std::string gpu;         // whose memory is the limit; empty: none given
  Bytes capacity = 0;      // of that GPU
  std::string strategy;    // asked about; empty: none
  std::string fit;         // a sentence about that strategy; empty without capacity or strategy
  std::string infeasible;  // the same when it does not fit
};

// Throws InputError: no GPUs, a shard group that does not divide them, ...
ParamsTables params_tables(const Scenario& scenario);

// The volumes alone.
std::vector<VolumeRow> volume_table(std::int64_t parameters, std::int64_t gpus,
                                    std::int64_t shard_group, int accumulation);

std::string to_text(const ParamsTables& tables);
// Schema "stepcast.tables/1".
std::string to_json(const ParamsTables& tables);

}  // namespace stepcast
