#pragma once
// Times of collectives that somebody measured, by (operation, ranks, nodes, size). They go before
// the model: what was measured on the very machine is worth more than any formula.
//
//   MeasuredTable table = MeasuredTable::from_file("measured.toml");
//   std::optional<MeasuredTime> t = table.find(CollectiveKind::all_reduce, 16, 2, 25 * mib);
//
// Between two measured sizes the time is interpolated on logarithms of both; below the smallest it
// is that of the smallest, above the largest it grows with the size. Only an exact match of ranks
// and nodes answers. Where several communicators of an axis share their nodes (HSDP's replicas: one
// a GPU of the node), a series that was measured with as many `siblings` at work goes first, then
// one of a communicator alone; so does one of the very dtype. The file is written by `stepcast nccl
// import` and can be written by hand (calibrations hold the same: sim/calibration):
//
//   [[measured]]
//   op = "all_reduce"
//   ranks = 16
//   nodes = 2
//   source = "ar.log, NCCL 2.28.9"
//   bytes = [8, 1048576, 16777216]
//   time_us = [38.6, 120, 302]
//
// Tested by tests/unit/collectives/measured_test.cpp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/measured.hpp"
#include "base/provenance.hpp"
#include "base/toml.hpp"
#include "base/units.hpp"
#include "sim/collectives/nccl_tests_log.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

struct MeasuredTime {
  Seconds seconds = 0;
  MeasuredHow how = MeasuredHow::measured;
  std::string source;
  int siblings = 1;  // communicators at work on the same nodes when it was measured

  Provenance provenance() const { return provenance_of(how); }
};

class MeasuredTable {
 public:
  struct Series {
    CollectiveKind op = CollectiveKind::all_reduce;
    int ranks = 0;
    int nodes = 0;
    std::string source;
    std::vector<Bytes> bytes;         // rising
    std::vector<double> time_us;      // one each
    int siblings = 1;                 // communicators at work on the same nodes, itself included
    std::optional<Dtype> dtype = {};  // none: any
    std::vector<double> spread = {};  // of the repetitions, a fraction of each time; or empty
  };

  // Throws InputError with file, line and key.
  static MeasuredTable from_file(const std::string& path);
  static MeasuredTable from_text(std::string_view text, const std::string& file);

  // A later log of the same operation, ranks and nodes adds its sizes; of a size that both have the
  // smaller time stays.
  void add(const NcclTestsLog& log);

  // Of one [[...]] table; throws InputError for what the series above does not allow.
  static Series read_series(TomlTable& table);
  // The same as the lines of such a table, without its heading.
  static std::string lines_of(const Series& series);
  // False when one of the same operation, ranks, nodes, siblings and dtype is there already.
  bool add(Series series);

  std::optional<MeasuredTime> find(CollectiveKind op, int ranks, int nodes, Bytes bytes,
                                   int siblings = 1,
                                   std::optional<Dtype> dtype = std::nullopt) const;

  const std::vector<Series>& series() const { return series_; }
  std::string to_toml() const;

 private:
  Series* known(CollectiveKind op, int ranks, int nodes, int siblings = 1,
                std::optional<Dtype> dtype = std::nullopt);

  std::vector<Series> series_;
};

// "all_reduce" and the like, as nccl-tests names them. Throws InputError.
CollectiveKind parse_collective(const std::string& name, const Where& asked);

}  // namespace stepcast
