#pragma once
// How far forecasts are from published measurements: median absolute error, with NCCL's prediction
// alone beside it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "validate/collectives/calls.hpp"

namespace stepcast::validate {

struct Band {
  const char* name;
  std::int64_t from, below;
  bool holds(std::int64_t bytes) const { return bytes >= from && bytes < below; }
};
inline constexpr Band bands[] = {{"64 KiB - 16 MiB", 1 << 16, 1 << 24},
                                 {">= 16 MiB", 1 << 24, std::int64_t{1} << 62}};

struct Errors {
  int rows = 0;
  double tuner_percent = 0;
  double corrected_percent = 0;
};

// The forecast of a published call by these corrections, without what its harness adds.
double forecast_us(const Corrections& corrections, const PublishedCall& call);

Errors errors(const Corrections& corrections, const std::vector<PublishedCall>& calls,
              const std::function<bool(const PublishedCall&)>& wanted);

std::string words(const Errors& errors);  // "38.9 > 33.0 % (138)"

// By operation, by class and by machine: what `stepcast nccl compare --published` prints.
struct ErrorRow {
  std::string name;  // "all_reduce", "rdma, fitted on"
  std::array<Errors, std::size(bands)> by_band;
};
struct ErrorTable {
  std::string title;  // "machines nothing was fitted on"
  std::vector<ErrorRow> rows;
};
struct Apart {
  std::string machine, why;
};
struct PublishedErrors {
  std::size_t calls = 0, machines = 0;
  std::vector<ErrorTable> tables;
  std::vector<Apart> apart;
  std::vector<LeftOut> left_out;
};
PublishedErrors published_errors(const Corrections& corrections,
                                 const std::vector<PublishedCall>& calls);
std::string to_text(const PublishedErrors& errors);

}  // namespace stepcast::validate
