#pragma once
// One step of one rank as a Chakra execution trace, for simulators that run those (ASTRA-sim), and
// the durations of such a trace, whoever wrote it.
//
// What a schedule says becomes nodes and dependencies; nothing of the timeline enters but what each
// op takes alone:
//
//   launch of an op      COMP_NODE, is_cpu_op; ctrl_deps on the one before on its lane, data_deps
//   on
//                        what the lane waited for
//   kernels, copies      COMP_NODE; data_deps on their launch, on the op before on their stream and
//                        on what the stream was told to wait for
//   a collective         COMM_COLL_NODE, the same and the collective before on its communicator;
//                        attributes comm_type, comm_size (bytes of this rank's input), pg_name
//
// The trace is one step by itself: waits for an earlier step fall away. Durations are whole
// microseconds in that schema; what rounding takes from a kernel the next one on its stream gets,
// so that sums are right to one microsecond.
//
// A group of ranks is a number, the same in all files; chakra_groups() lists them as ASTRA-sim's
// --comm-group-configuration does: {"0": [0, 1, 2, 3], ...}.
//
// Tested by tests/unit/interop/chakra_test.cpp, which reads back what is written and runs the graph
// by hand. ASTRA-sim itself has not been run on it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

// By op of the program: alone on its stream, and on the host's lane.
struct ChakraTimes {
  std::vector<Seconds> device, host;
};

// The file of `rank`, which has this role.
std::string to_chakra(const Schedule& schedule, int role, int program, int rank,
                      const ChakraTimes& times);
std::string chakra_groups(const Schedule& schedule);  // JSON

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  bool collective = false;  // COMM_COLL_NODE
  bool compute = false;     // COMP_NODE of the GPU
  std::string kind;         // of a collective: "all_gather"
  Bytes bytes = 0;          // of a collective: comm_size
  std::string group;        // pg_name
  double duration_us = 0;
  std::string shapes, types;         // of its inputs, as written: "[[2, 3]]", "['Tensor(float)']"
  std::vector<std::uint64_t> after;  // ctrl_deps, then data_deps
};

// Whether a file begins as an execution trace does (and is neither JSON nor gzip).
bool is_chakra(const std::string& head);
bool is_chakra_file(const std::string& path);  // false of a pipe, which is read once
// Throws InputError: cut off, no protobuf, a node that depends on one that is not there. FILE is
// what errors call it. At most 20 million nodes.
std::vector<ChakraNode> read_chakra(const std::string& bytes, const std::string& file);

}  // namespace stepcast
