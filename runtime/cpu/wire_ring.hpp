#pragma once
// Collectives over a Wire: rings of slices, the arithmetic of ring.hpp, the bytes that the volume
// of a ring says.
//
//   all-gather, reduce-scatter   n - 1 steps: a part to the next rank, a part from the one before
//   all-reduce                   both: 2 (n - 1) steps of 1/n of the tensor
//   broadcast, reduce            a chain from (to) the root, slice by slice, so that all its links
//                                work at once
//   gather, scatter              every rank to (from) the root, at once
//
// Four ranks, all-reduce of 8 MB: 6 steps of 2 MB; each rank sends 12 MB = 2 (4 - 1) / 4 * 8 MB.
//
// A replay has no tensors: the same bytes travel, from and to a scratch buffer, and nothing is
// added. Tested by tests/unit/runtime/wire_test.cpp.

#include <functional>
#include <vector>

#include "runtime/cpu/ring.hpp"
#include "runtime/cpu/wire.hpp"

namespace stepcast::runtime {

class WireRing {
 public:
  // `pause` is called while a message is awaited, again and again; it may throw to end the run.
  // `moved` is called after each slice that came or went.
  WireRing(Wire& wire, int channel, std::vector<int> ranks, std::function<void(int turn)> pause,
           std::function<void()> moved);

  // Null operands: a replay.
  void carry_out(const Collective& collective, Operands mine);

  // One message to or from a member of the group; awaits it.
  void await(Wire::Request request);

 private:
  struct Parts;
  void exchange(const std::byte* from, Bytes out, int to, std::byte* into, Bytes in, int sender);
  void reduce_parts(const Collective& c, std::byte* tensor, const Parts& part);
  void gather_parts(std::byte* tensor, const Parts& part);
  void broadcast(const Collective& c, Operands mine);
  void reduce(const Collective& c, Operands mine);
  void gather(const Collective& c, Operands mine);
  void scatter(const Collective& c, Operands mine);
  int member(int index) const;  // modulo the size of the group
  std::byte* scratch(Bytes bytes, int which);

  Wire& wire_;
  int channel_;
  std::vector<int> ranks_;
  int me_ = 0;  // index in the group
  std::function<void(int)> pause_;
  std::function<void()> moved_;
  std::vector<std::byte> scratch_[2];
};

}  // namespace stepcast::runtime
