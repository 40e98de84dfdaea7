#pragma once
// What was measured on one machine, as one TOML file: kernels, collectives, the host, interference.
// `stepcast calibrate` writes it, a person can, and `--calibration FILE` puts it before the models:
// what it covers is "measured", what lies outside is interpolated, extrapolated or modelled, and a
// report says how much of a step rests on each.
//
//   Calibration c = read_calibration("h100.toml");
//   c.kernels        products, attention, convolutions by shape; memory-bound kernels by bytes
//   c.collectives    by operation, ranks, nodes, siblings and size: one series an axis
//   c.host           what a launch costs
//   c.interference   what a collective takes from a product beside it
//
// A part that is not there was not measured. The keys, each with an example: docs/calibration.md.
// Kernels hold for one GPU, `machine.gpu`; collectives for whoever has as many ranks and nodes.
// Tested by tests/unit/calibration.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/measured.hpp"
#include "sim/kernels/measured_kernels.hpp"

namespace stepcast {

// Where and how it was measured. Free text but for `gpu` and `date`.
struct CalibrationOrigin {
  std::string name;      // of the machine: "dgx-h100", "lab of 4 hosts, 100 Mb/s"
  std::string device;    // as its driver names it: "NVIDIA H100 80GB HBM3"
  std::string gpu;       // the catalog's name of it: "h100-sxm"; empty: no kernels are here
  std::string driver;    // "550.54.15"; empty: none
  std::string executor;  // what ran: "cuda", "cpu threads", "cpu mpi", "pytorch"
  std::string source;    // "stepcast 0.1.0 calibrate --quick"
  std::string date;      // "2026-11-30"
  std::vector<std::string> versions;  // "CUDA 12.4", "NCCL 2.28.9"
};

// Microseconds; none: not measured.
struct CalibratedHost {
  std::optional<double> launch_us;       // what the trained software pays a launch; the profile's
                                         // launch_us then does not count
  std::optional<double> bare_launch_us;  // what the driver alone takes; for people
  std::optional<double> op_overhead_us;  // what the executor adds to each op of a stream
};

// Work beside a collective that runs all the while: seconds beside it over seconds alone.
struct CalibratedOverlap {
  double channels = 0;                    // that the collective held
  double compute_slowdown = 1;            // of a product
  std::optional<double> memory_slowdown;  // of a memory-bound kernel
  double collective_slowdown = 1;         // of the collective beside a product; for people
};

struct Calibration {
  CalibrationOrigin origin;
  CalibratedHost host;
  MeasuredKernels kernels;
  MeasuredTable collectives;
  std::vector<CalibratedOverlap> overlaps;  // rising channels

  // As the simulator takes them: 1 - 1 / slowdown.
  std::vector<MeasuredShare> interference() const;
};

// Throws InputError with file, line and key.
Calibration read_calibration(const std::string& path);
Calibration parse_calibration(std::string_view text, const std::string& file);

// Reads back as it was written, to six digits.
std::string to_toml(const Calibration& calibration);

// "12 products, 3 attentions, 40 memory sizes, 6 series of collectives, launch": for people.
std::string summary(const Calibration& calibration);

}  // namespace stepcast
