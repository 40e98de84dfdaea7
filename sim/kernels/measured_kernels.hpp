#pragma once
// Kernels that somebody measured on the very GPU. They go before the model of kernel_cost.hpp, and
// where a shape was not measured itself its neighbours correct the model:
//
//   products, attention, convolutions
//              seconds = model x (measured / model) of the nearest measured shapes of the same kind
//              and dtype, at most four, weighted by 1 / distance^2. A distance is in doublings:
//              4096 x 4096 x 4096 and 4096 x 4096 x 8192 are 1 apart. Nearest within 1 doubling of
//              every size: interpolated; further: extrapolated. What is more than 3 doublings away
//              in a size says nothing: a product of a few rows is bound by other things.
//   memory     the time of so many bytes, a straight line between two measured sizes in log-log; a
//              kernel of several launches is as many kernels of a part of the bytes. Below the
//              smallest size its time, above the largest in proportion: extrapolated. A series may
//              be of one kernel by name ("adamw"); others use the nameless one.
//
// Example: the model says 200 us of 4096^3 and 410 us of 4096 x 4096 x 8192; measured were 180 us
// of 4096^3 only. Then the second is 410 x 0.9 = 369 us, interpolated.
//
// The model may rest on public measurements of the same GPU itself (kernel_tables.hpp); what its
// owner measured goes before them. A product that was timed alone and briefly may run faster than
// the chip's power limit lets a long step run: a bench that repeats it for long does not.
//
// What a kernel asks of SMs and memory scales with its seconds. Cost: one pass over the measured
// shapes of a kind for each distinct kernel of a schedule.
// Tested by tests/unit/kernels/measured_kernels_test.cpp.

#include <functional>
#include <optional>
#include <vector>

#include "base/kernel.hpp"
#include "base/measured.hpp"
#include "sim/kernels/kernel_cost.hpp"

namespace stepcast {

struct MeasuredKernels {
  // gemm, attention or convolution; bytes, launches and name of the shape do not count.
  struct Shape {
    Kernel shape;
    Seconds seconds = 0;
    double spread = 0;  // of the repetitions, as a fraction of seconds; 0: not known
  };
  struct Series {
    Name kernel;                   // "adamw"; empty: any memory-bound kernel
    std::vector<Bytes> bytes;      // read and written together, rising
    std::vector<Seconds> seconds;  // of one launch
    std::vector<double> spread;
  };

  std::vector<Shape> shapes;
  std::vector<Series> memory;
  double memory_bytes_per_second = 0;  // streams that read and write; 0: not measured

  bool empty() const { return shapes.empty() && memory.empty() && memory_bytes_per_second == 0; }
};

// A kernel model with what was measured before it.
class CalibratedKernels {
 public:
  struct Cost : KernelCost {
    std::optional<MeasuredHow> how;  // none: the model's
  };

  CalibratedKernels(KernelModel model, MeasuredKernels measured);

  // Throws InputError as KernelModel does.
  Cost cost(const Kernel& kernel) const;
  double memory_bytes_per_second() const;

 private:
  struct Factor {
    double factor = 1;
    MeasuredHow how = MeasuredHow::measured;
  };
  std::optional<Factor> shape_factor(const Kernel& kernel) const;
  std::optional<Factor> memory_factor(const Kernel& kernel, Seconds model) const;

  KernelModel model_;
  MeasuredKernels measured_;
  std::vector<double> ratios_;  // measured over model, by shape
};

}  // namespace stepcast
