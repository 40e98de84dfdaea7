#pragma once
// Moving elements between buffers: casts, copies in and out of buckets, concatenations, paddings,
// additions, divisions are all this, and differ in where the elements lie before and after.
//
//   move      to[i] = factor * from[i]     (or added to what is there)
//
// A read of poison (numbers.hpp) throws: an op that reads freed memory, or memory that nobody
// wrote.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace stepcast::runtime {

class PoisonRead : public std::runtime_error {
 public:
  explicit PoisonRead(const std::string& message) : std::runtime_error(message) {}
};

// Elements of a view's buffer, from its start (OpContext::memory).
struct Place {
  int view = 0;  // index among the op's views: reads, then writes
  Dtype dtype = Dtype::fp32;
  std::int64_t at = 0;
};

struct Move {
  Place from;
  Place to;
  std::int64_t count = 0;
  double factor = 1;
  bool add = false;
};

// `name` of the op, for the message. Every move's factor is multiplied by `factor`.
void run_moves(const std::vector<Move>& moves, std::byte* const* memory, const std::string& name,
               double factor = 1);

// count elements as double or float, and back.
template <typename Real>
void read(Real* to, const std::byte* memory, Dtype dtype, std::int64_t at, std::int64_t count,
          const std::string& name);
template <typename Real>
void write(std::byte* memory, Dtype dtype, std::int64_t at, const Real* from, std::int64_t count);

extern template void read(float*, const std::byte*, Dtype, std::int64_t, std::int64_t,
                          const std::string&);
extern template void read(double*, const std::byte*, Dtype, std::int64_t, std::int64_t,
                          const std::string&);
extern template void write(std::byte*, Dtype, std::int64_t, const float*, std::int64_t);
extern template void write(std::byte*, Dtype, std::int64_t, const double*, std::int64_t);

}  // namespace stepcast::runtime
