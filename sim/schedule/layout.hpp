#pragma once
// What lies in a buffer: which elements of which tensors of the model, in which order. A forecast
// needs only the sizes; whoever runs a schedule with real numbers needs the places too.
//
//   cut      a buffer holds                                         who
//   whole    each tensor from `at` on                               gradients, flat parameters
//   flat     of such a whole, elements [r part, (r+1) part)         FSDP1, ZeRO-1/2: any cut
//   chunks   of each tensor its r-th `chunk` elements, from `at` on FSDP2 (rows), ZeRO-3
//   by_rank  the chunks of rank 0, then those of rank 1, ...        what an all-gather of them
//   makes
//
// r is the rank's index in its group of `axis`. Example, tensors a of 5 and b of 3 elements, two
// ranks, chunks of 3 and 2 (`at` 0 and 3, part 5), '.' padding:
//
//   chunks, rank 0   a0 a1 a2 b0 b1      rank 1   a3 a4 . b2 .
//   by_rank          a0 a1 a2 b0 b1 a3 a4 . b2 .
//
// Only buffers whose content does not follow from the ops that fill them have one: parameters and
// their shards, gradients as backward writes them, and buffers in which an op changes the order.
// Layouts are no part of the text form: a schedule that was read from text can be simulated, not
// trained. Tested by tests/unit/schedule/layout_test.cpp.

#include <cstdint>
#include <vector>

namespace stepcast {

struct Schedule;

enum class Cut : std::uint8_t { whole, flat, chunks, by_rank };

// A tensor of the model in a layout; all counts in elements.
struct Placed {
  std::int32_t tensor = 0;    // index into the model's parameters
  std::int64_t elements = 0;  // of the tensor
  std::int64_t at = 0;
  std::int64_t chunk = 0;  // chunks, by_rank: elements a rank holds at most
};

// Elements [first, first + count) of a tensor, which lie from element `at` of the buffer on.
struct Run {
  std::int32_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t at = 0;
  friend bool operator==(const Run& a, const Run& b) = default;
};

}  // namespace stepcast
